package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// ofDatabase is the database's name among the holders of certificates, where a destination has its own name.
const ofDatabase = ""

// Certificates records the certificates that servers show when connections are made, so that examining them needs no further
// connection. It is safe for concurrent use.
type Certificates struct {
	mu   sync.Mutex
	seen map[string][]*x509.Certificate // by destination, without duplicates
}

// Note makes a client's configuration record the certificates that the server of a destination shows, or the database if
// destination is empty. The configuration may be nil, for a connection without TLS.
func (c *Certificates) Note(destination string, config *tls.Config) {
	if config == nil {
		return
	}
	before := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) > 0 {
			c.Add(destination, state.PeerCertificates[0])
		}
		if before != nil {
			return before(state)
		}
		return nil
	}
}

// Add records one of the relay's own certificates.
func (c *Certificates) Add(destination string, certificate *x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.seen[destination] {
		if known.Equal(certificate) {
			return
		}
	}
	if c.seen == nil {
		c.seen = map[string][]*x509.Certificate{}
	}
	c.seen[destination] = append(c.seen[destination], certificate)
}

// soon is how long before its end a certificate's expiry is worth a warning.
const soon = 21 * 24 * time.Hour

func (c *Certificates) findings(destination string) []finding.Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []finding.Finding
	for _, certificate := range c.seen[destination] {
		found = append(found, validity(certificate, time.Now()))
	}
	return found
}

func validity(c *x509.Certificate, now time.Time) finding.Finding {
	const check = "certificate"
	const renew = "renew the certificate, and see why that did not happen by itself"
	subject := c.Subject.String()
	switch left := c.NotAfter.Sub(now); {
	case left < 0:
		return failure(check, subject, renew, "it ended at %s", c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return failure(check, subject, "wait, or correct this host's clock", "it begins only at %s", c.NotBefore.UTC().Format(time.RFC3339))
	case left < soon && left < c.NotAfter.Sub(c.NotBefore)/3: // certificates that live for hours are renewed late
		return warning(check, subject, renew, "it ends in %d days, at %s", int(left.Hours()/24), c.NotAfter.UTC().Format(time.RFC3339))
	default:
		return ok(check, subject, "it ends at %s", c.NotAfter.UTC().Format(time.RFC3339))
	}
}
