package health

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	if s.Live != nil {
		mux.HandleFunc("GET /livez", s.live)
		mux.HandleFunc("GET /healthz", s.live)
	}
	if s.Ready != nil {
		mux.HandleFunc("GET /readyz", s.ready)
	}
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	if s.Doorbell != nil {
		mux.HandleFunc("POST /doorbell", s.ring)
	}
	return mux
}

func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	if err := s.Live(); err != nil {
		answer(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	answer(w, http.StatusOK, "ok\n")
}

// ready answers in the manner of the Kubernetes API server: the status is for machines, the text for
// people. What is wrong is always named; what is well only with ?verbose.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	verbose := r.URL.Query().Has("verbose")
	status, text := http.StatusOK, strings.Builder{}
	for _, check := range s.Ready(r.Context()) {
		switch {
		case check.Err != nil:
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&text, "[-]%s: %s\n", check.Name, oneLine(check.Err.Error()))
		case verbose && check.Note != "":
			fmt.Fprintf(&text, "[+]%s ok: %s\n", check.Name, oneLine(check.Note))
		case verbose:
			fmt.Fprintf(&text, "[+]%s ok\n", check.Name)
		}
	}
	switch {
	case status != http.StatusOK:
		text.WriteString("not ready\n")
	case verbose:
		text.WriteString("ready\n")
	default:
		text.WriteString("ok\n")
	}
	answer(w, status, text.String())
}

// ring is for the application in the same pod. Others could only cost the database needless reads,
// but they have no business here.
func (s *Server) ring(w http.ResponseWriter, r *http.Request) {
	if !fromHere(r) {
		answer(w, http.StatusForbidden, "the doorbell answers only callers on the loopback interface, not through a proxy and not from a page in a browser\n")
		return
	}
	s.Doorbell()
	answer(w, http.StatusAccepted, "")
}

// fromHere reports whether a program in the same pod has sent the request itself. Istio's proxy hands on what comes from outside with
// the source address 127.0.0.6.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() || ip.Equal(net.IPv4(127, 0, 0, 6)) {
		return false
	}
	for _, name := range []string{"Origin", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Envoy-External-Address"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return true
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the client may be gone
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
