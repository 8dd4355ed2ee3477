package health

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // its handlers are served to this host only, from http.DefaultServeMux
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// page shows the report of /status. Style and script are in it, so that nothing is fetched from elsewhere.
//
//go:embed page.html
var page []byte

// pagePolicy lets the browser run and show only the page's own contents, by their hashes, which a test compares, and
// fetch only from the page's origin.
const pagePolicy = "default-src 'none'; style-src 'sha256-uoo/ytZydcPbYz6Reej6wCzaUp8bS7M6Gh6On0TrDfI='; " +
	"script-src 'sha256-tgh+h/4WndRyl97jyuth8NSc27nU2D9dJk2/Qww591g='; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler serves the paths for which the server has fields. The kubelet has no credentials, so liveness and readiness
// are answered without them, but then without details.
func (s *Server) handler(g *guard) http.Handler {
	mux := http.NewServeMux()
	handle := func(offered bool, pattern string, handler http.Handler) {
		if offered {
			mux.Handle(pattern, handler)
		}
	}
	handle(s.Live != nil, "GET /livez", http.HandlerFunc(s.live))
	handle(s.Live != nil, "GET /healthz", http.HandlerFunc(s.live))
	handle(s.Ready != nil, "GET /readyz", s.ready(g))
	handle(s.Metrics != nil, "GET /metrics", g.protect(s.Metrics))
	handle(s.Status != nil, "GET /status", g.protect(s.status(g)))
	handle(s.Status != nil, "GET /{$}", g.protect(http.HandlerFunc(showPage)))
	// The doorbell is for the application in the same pod. Other callers have no need for it, and could only cause
	// useless reads of the database.
	handle(s.Doorbell != nil, "POST /doorbell", forHere("the doorbell answers", http.HandlerFunc(s.ring)))
	// Profiles show what is in memory, and take processor time.
	handle(s.Pprof, "/debug/pprof/", forHere("the profiler answers", http.DefaultServeMux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin") // no page of another origin embeds an answer
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	if err := s.Live(); err != nil {
		answer(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	answer(w, http.StatusOK, "ok\n")
}

// ready answers in the manner of the Kubernetes API server: the status is for machines, the text for people. Failing
// checks are always named, passing ones only with ?verbose. Reasons and notes, which name hosts and roles, are for
// callers that request them and may know them.
func (s *Server) ready(g *guard) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		verbose := r.URL.Query().Has("verbose")
		details := verbose && g.trusts(r)
		status, text := http.StatusOK, strings.Builder{}
		for _, check := range s.Ready() {
			switch {
			case check.Err != nil:
				status = http.StatusServiceUnavailable
				reason := "failed; reason withheld"
				if details {
					reason = errtext.Line(check.Err)
				}
				fmt.Fprintf(&text, "[-]%s: %s\n", check.Name, reason)
			case details && check.Note != "":
				fmt.Fprintf(&text, "[+]%s ok: %s\n", check.Name, strings.Join(strings.Fields(check.Note), " "))
			case verbose:
				fmt.Fprintf(&text, "[+]%s ok\n", check.Name)
			}
		}
		switch {
		case status != http.StatusOK && !details:
			text.WriteString("not ready; /readyz?verbose gives the reasons to callers on the same host or with " +
				"credentials\n")
		case status != http.StatusOK:
			text.WriteString("not ready\n")
		case verbose:
			text.WriteString("ready\n")
		default:
			text.WriteString("ok\n")
		}
		answer(w, status, text.String())
	}
}

// showPage answers with the page.
func showPage(w http.ResponseWriter, _ *http.Request) {
	h := head(w, "text/html; charset=utf-8", "no-cache")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	_, _ = w.Write(page) // the client may be gone
}

// status answers with the report. It includes hosts and roles for callers that may know them.
func (s *Server) status(g *guard) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		head(w, "application/json", "no-store")
		_ = json.NewEncoder(printable.JSON(w)).Encode(s.Status(r.Context(), g.trusts(r))) // the client may be gone
	}
}

func (s *Server) ring(w http.ResponseWriter, _ *http.Request) {
	s.Doorbell()
	answer(w, http.StatusAccepted, "")
}

// answer sends a text that no cache may keep.
func answer(w http.ResponseWriter, status int, text string) {
	head(w, "text/plain; charset=utf-8", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the client may be gone
}

func head(w http.ResponseWriter, contentType, cache string) http.Header {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	return h
}

// forHere serves callers on this host only.
func forHere(what string, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) {
			answer(w, http.StatusForbidden, what+" only callers on the loopback interface, not through a proxy and "+
				"not from a page in a browser\n")
			return
		}
		next.ServeHTTP(w, r)
	}
}
