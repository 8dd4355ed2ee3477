package connect

import (
	"crypto/tls"
	"errors"
	"testing"
)

// Settings that are shared are not changed. They may name another host, and be unusable.
func TestTLS(t *testing.T) {
	t.Parallel()
	shared := &tls.Config{MinVersion: tls.VersionTLS13}
	settings := func() (*tls.Config, error) { return shared, nil }
	if got, err := TLS(settings, "host"); err != nil || got.ServerName != "host" || got.MinVersion != tls.VersionTLS13 {
		t.Errorf("the settings are %v, %v", got, err)
	}
	if shared.ServerName != "" {
		t.Error("the shared settings were changed")
	}
	shared.ServerName = "fixed"
	if got, _ := TLS(settings, "host"); got.ServerName != "fixed" {
		t.Errorf("the configured name became %q", got.ServerName)
	}
	none := func() (*tls.Config, error) { return nil, nil }
	for _, settings := range []func() (*tls.Config, error){nil, none} {
		got, err := TLS(settings, "host")
		if err != nil || got.ServerName != "host" || got.MinVersion != tls.VersionTLS12 {
			t.Errorf("without settings: %v, %v", got, err)
		}
	}
	bad := errors.New("no such file")
	_, err := TLS(func() (*tls.Config, error) { return nil, bad }, "host")
	if f := new(Attempt).TLS(err); f == nil || f.Short != "TLS settings unusable" || !errors.Is(f, bad) {
		t.Errorf("unusable settings are explained as %v", f)
	}
}
