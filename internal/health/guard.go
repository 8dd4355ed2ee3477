package health

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// A guard decides which callers may request what, by a configuration file in exporter-toolkit's format. The file is
// read again at each use, so that renewed certificates and changed passwords need no restart. While the file cannot be
// used, the last usable version stays in force.
type guard struct {
	path   string // if empty, every caller is allowed
	logger *slog.Logger

	mu      sync.Mutex
	current *webConfig // the last one that was usable
	problem string     // the problem that was logged last

	hashing sync.Mutex // allows one comparison at a time: each takes a core for a tenth of a second
	passed  sync.Map   // digests of credentials that were compared and are correct: one for each user and hash
}

// config returns the configuration in force.
func (g *guard) config() *webConfig {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, err := readWebConfig(g.path)
	// A file that is being written is empty for a moment, which must not open the port.
	if last := cmp.Or(g.current, c); err == nil && ((c.server == nil) != (last.server == nil) ||
		len(c.Users) == 0 && len(last.Users) > 0) {
		err = errors.New("TLS cannot be switched on or off while the relay runs, and passwords cannot be switched " +
			"off; restart it")
	}
	if err == nil {
		g.current, g.problem = c, ""
	} else if g.problem != err.Error() {
		g.problem = err.Error()
		g.logger.Warn("HTTP configuration file is invalid; the last valid one stays in force", "error", err)
	}
	return g.current
}

// protect lets only allowed requests through.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := g.config(); len(c.Users) > 0 && !g.knows(c, r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="outbox-relay"`)
			answer(w, http.StatusUnauthorized, "a user name and a password are needed\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trusts reports whether the caller may know hosts and roles: it is on this host, or has authenticated.
func (g *guard) trusts(r *http.Request) bool {
	return fromHere(r) || r.TLS != nil && len(r.TLS.VerifiedChains) > 0 || g.knows(g.config(), r)
}

// nobody is the hash that is compared for unknown users, so that the time of the answer does not reveal which users
// exist.
const nobody = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"

// knows reports whether the request carries credentials of the file.
func (g *guard) knows(c *webConfig, r *http.Request) bool {
	if token, is := strings.CutPrefix(r.Header.Get("Authorization"), bearer); is {
		return fromHere(r) && subtle.ConstantTimeCompare([]byte(token), []byte(c.local)) == 1
	}
	user, password, given := r.BasicAuth()
	if !given || len(c.Users) == 0 {
		return false
	}
	hash := cmp.Or(c.Users[user], nobody)
	digest := sha256.Sum256([]byte(user + "\x00" + hash + "\x00" + password))
	if _, passed := g.passed.Load(digest); passed {
		return true
	}
	g.hashing.Lock()
	err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
	g.hashing.Unlock()
	if err != nil || c.Users[user] == "" {
		return false
	}
	g.passed.Store(digest, nil)
	return true
}

const bearer = "Bearer "

// forwarded are headers by which a browser or a proxy shows, besides X-Forwarded-…
var forwarded = []string{"Origin", "Forwarded", "Via", "X-Real-Ip", "X-Envoy-External-Address"}

// fromHere reports whether a program on this host sent the request itself; in Kubernetes that is a container of the
// same pod. Requests over the network, requests that a proxy forwards, and requests made by a page in a browser do not
// count.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	// Istio's proxy forwards external requests with the source address 127.0.0.6.
	if err != nil || ip == nil || !ip.IsLoopback() || ip.Equal(net.IPv4(127, 0, 0, 6)) {
		return false
	}
	for name := range r.Header {
		if slices.Contains(forwarded, name) || strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	return namesNoOther(r.Host)
}

// namesNoOther reports whether the header Host is an address or localhost. A page may give its own name the address
// 127.0.0.1 (DNS rebinding); the browser then takes the relay for the page's own server and sends no Origin with a GET.
func namesNoOther(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.Trim(header, "[]")
	}
	return host == "" || host == "localhost" || net.ParseIP(host) != nil
}
