package health

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
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
	current *webConfig
	problem string // the problem that was logged last

	hashing sync.Mutex // allows one comparison at a time: each takes a core for a tenth of a second
	passed  sync.Map   // digests of credentials that were compared and are correct: one for each user and hash
}

var errSwitched = errors.New("TLS cannot be switched on or off while the relay runs, and passwords cannot be " +
	"switched off; restart it")

// open reads the file for the first time.
func (g *guard) open() (err error) {
	g.current, err = readWebConfig(g.path)
	return err
}

// config returns the configuration in force, nil without a file.
func (g *guard) config() *webConfig {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.path == "" {
		return nil
	}
	c, err := readWebConfig(g.path)
	// A file that is being written is empty for a moment, which must not open the port.
	if err == nil && ((c.server == nil) != (g.current.server == nil) || len(c.Users) == 0 && len(g.current.Users) > 0) {
		err = errSwitched
	}
	if err == nil {
		g.current, g.problem = c, ""
		return c
	}
	if g.problem != err.Error() {
		g.problem = err.Error()
		g.logger.Warn("HTTP configuration file is invalid; the last valid one stays in force", "error", err)
	}
	return g.current
}

// tls returns the server's TLS configuration, nil without TLS.
func (g *guard) tls() *tls.Config {
	if c := g.config(); c == nil || c.server == nil {
		return nil
	}
	present := func(*tls.ClientHelloInfo) (*tls.Config, error) { return g.config().server, nil }
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: present}
}

// protect lets only allowed requests through.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := g.config(); c != nil && len(c.Users) > 0 && !g.knows(c, r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="outbox-relay"`)
			answer(w, http.StatusUnauthorized, "a user name and a password are needed\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trusts reports whether the caller may know hosts and roles: it is on this host, or has authenticated.
func (g *guard) trusts(r *http.Request) bool {
	if fromHere(r) {
		return true
	}
	c := g.config()
	return c != nil && (g.knows(c, r) || r.TLS != nil && len(r.TLS.VerifiedChains) > 0)
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
	if !given {
		return false
	}
	hash, known := c.Users[user]
	if !known {
		hash = nobody
	}
	digest := sha256.Sum256([]byte(user + "\x00" + hash + "\x00" + password))
	if _, passed := g.passed.Load(digest); passed {
		return true
	}
	g.hashing.Lock()
	err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
	g.hashing.Unlock()
	if err != nil || !known {
		return false
	}
	g.passed.Store(digest, nil)
	return true
}

const bearer = "Bearer "
