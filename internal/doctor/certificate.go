package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// ofDatabase is the database's name among the holders of certificates, where a destination has its own name.
const ofDatabase = ""

// Certificates records the certificates that servers show when connections are made, so that examining them needs no
// further connection. It is safe for concurrent use.
type Certificates struct {
	mu   sync.Mutex
	seen map[string][]*x509.Certificate // by destination, without duplicates
}

// Note makes a client's configuration record the certificates that the server of a destination shows, or the database
// if destination is empty. The configuration may be nil, for a connection without TLS.
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
	if slices.ContainsFunc(c.seen[destination], certificate.Equal) {
		return
	}
	if c.seen == nil {
		c.seen = map[string][]*x509.Certificate{}
	}
	c.seen[destination] = append(c.seen[destination], certificate)
}

// soon is how long before its end a certificate's expiry is worth a warning.
const soon = 21 * 24 * time.Hour

// findings reports until when the certificates of a destination or of the database are valid.
func (c *Certificates) findings(destination string) (f finding.List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, certificate := range c.seen[destination] {
		validity(&f, certificate, time.Now())
	}
	return f
}

func validity(f *finding.List, c *x509.Certificate, now time.Time) {
	const renew = "renew the certificate, and see why that did not happen by itself"
	left, end := c.NotAfter.Sub(now), c.NotAfter.UTC().Format(time.RFC3339)
	f.Add("certificate", c.Subject.String(),
		finding.FailIf(left < 0, "it ended at "+end, renew),
		finding.FailIf(now.Before(c.NotBefore), "it begins only at "+c.NotBefore.UTC().Format(time.RFC3339),
			"wait, or correct this host's clock"),
		// Certificates that live for hours are renewed late.
		finding.WarnIf(left < soon && left < c.NotAfter.Sub(c.NotBefore)/3,
			fmt.Sprintf("it ends in %d days, at %s", int(left.Hours()/24), end), renew),
		finding.OKIf(true, "it ends at "+end))
}
