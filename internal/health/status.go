package health

import (
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// page shows the report of /status. Style and script are in it, so that nothing is fetched from elsewhere.
//
//go:embed page.html
var page []byte

// pagePolicy lets the browser run and show only the page's own contents, by their hashes, which a test compares, and
// fetch only from the page's origin.
const pagePolicy = "default-src 'none'; style-src 'sha256-uoo/ytZydcPbYz6Reej6wCzaUp8bS7M6Gh6On0TrDfI='; " +
	"script-src 'sha256-Oys2bQWSDE29z7MrJLrPPZwbNVaW2B1eBuQaKf0PSfU='; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

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
		report, err := json.Marshal(s.Status(r.Context(), g.trusts(r)))
		if err != nil {
			answer(w, http.StatusInternalServerError, "the report cannot be written\n")
			return
		}
		head(w, "application/json", "no-store")
		_, _ = printable.JSON(w).Write(append(report, '\n'))
	}
}
