package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

func TestValidity(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		begins, ends time.Duration
		severity     finding.Severity
		says         string
	}{
		"young":           {-day, 90 * day, finding.OK, "it ends at 2026-07-30"},
		"near its end":    {-80 * day, 10*day + time.Hour, finding.Warning, "it ends in 10 days"},
		"ended":           {-90 * day, -time.Minute, finding.Error, "it ended at 2026-05-01T11:59:00Z"},
		"not yet":         {day, 90 * day, finding.Error, "it begins only at 2026-05-02"},
		"of a short life": {-time.Hour, 23 * time.Hour, finding.OK, "it ends at"},
		"short, too late": {-20 * time.Hour, 4 * time.Hour, finding.Warning, "it ends in 0 days"},
	} {
		var found finding.List
		validity(&found, &x509.Certificate{
			Subject: pkix.Name{CommonName: "broker"}, NotBefore: now.Add(c.begins), NotAfter: now.Add(c.ends),
		}, now)
		if f := found[0]; f.Severity != c.severity || !strings.Contains(f.Found, c.says) || f.Subject != "CN=broker" ||
			(f.Remedy == "") != (c.severity == finding.OK) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// The certificates come from connections that are made anyway, and each is recorded once.
func TestCertificatesAreNoted(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	var c Certificates
	c.Note("orders", config)
	for range 2 {
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), config)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if found := c.findings("orders"); len(found) != 1 || found[0].Check != "certificate" {
		t.Errorf("%+v", found)
	}
	if found := c.findings("audit"); len(found) != 0 {
		t.Errorf("of another destination: %+v", found)
	}
	c.Note("orders", nil)
}
