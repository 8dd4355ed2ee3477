package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// databaseCertificate names the database among the holders of certificates.
const databaseCertificate = "\x00database"

// Certificates takes note of the certificates that servers show when the connections are made, so that no
// further connection is needed to look at them. It is safe for concurrent use.
type Certificates struct {
	mu   sync.Mutex
	seen map[string][]*x509.Certificate // by destination, without doubles
}

// Note lets a client's configuration, if it has one, tell of the certificates that the server of a
// destination shows. Nil certificates take no note.
func (c *Certificates) Note(destination string, config *tls.Config) {
	if c == nil || config == nil {
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

// NoteDatabase is Note for the database.
func (c *Certificates) NoteDatabase(config *tls.Config) { c.Note(databaseCertificate, config) }

// Add takes note of a certificate of our own.
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

// soon is how long before its end a certificate is worth a warning.
const soon = 21 * 24 * time.Hour

func (c *Certificates) findings(destination string) []finding.Finding {
	if c == nil {
		return nil
	}
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
	case left < soon && left < c.NotAfter.Sub(c.NotBefore)/3: // those that live for hours are renewed late
		return warning(check, subject, renew, "it ends in %d days, at %s", int(left.Hours()/24), c.NotAfter.UTC().Format(time.RFC3339))
	default:
		return ok(check, subject, "it ends at %s", c.NotAfter.UTC().Format(time.RFC3339))
	}
}
