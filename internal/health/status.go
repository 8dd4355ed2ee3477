package health

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// page shows the report of /status. Style and script are in it, so that nothing is fetched from elsewhere.
//
//go:embed page.html
var page []byte

var inline = regexp.MustCompile(`(?s)<(style|script)>(.*?)</(?:style|script)>`)

// pagePolicy lets the browser run and show only the page's own contents, and fetch only from the page's origin.
func pagePolicy() string {
	hashes := map[string][]string{}
	for _, found := range inline.FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(found[2])
		hashes[string(found[1])] = append(hashes[string(found[1])], "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return "default-src 'none'; style-src " + strings.Join(hashes["style"], " ") + "; script-src " +
		strings.Join(hashes["script"], " ") +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// showPage answers with the page.
func showPage() http.HandlerFunc {
	policy := pagePolicy()
	return func(w http.ResponseWriter, _ *http.Request) {
		h := head(w, "text/html; charset=utf-8", "no-cache")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		_, _ = w.Write(page) // the client may be gone
	}
}

// status answers with the report. It includes hosts and roles for callers that may know them.
func (s *Server) status(g *guard) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		report, err := json.Marshal(s.Status(r.Context(), g.trusts(r)))
		if err != nil {
			answer(w, http.StatusInternalServerError, "the report cannot be written\n")
			return
		}
		head(w, "application/json", "no-store")
		_, _ = printable.JSON(w).Write(append(report, '\n'))
	}
}
