package health

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/time/rate"
)

// A webConfig is a file in the format of Prometheus' exporter-toolkit, which says how a port is protected. The
// toolkit's own handler cannot be used: it asks the kubelet for a password, too.
type webConfig struct {
	web.Config

	server *tls.Config   // nil without TLS
	limit  *rate.Limiter // of requests to protected paths; nil for no limit
	local  string        // proof that a caller on this host can read the file, too
}

// CheckConfig returns why the relay could not serve with the file at path, nil if it could. An empty path needs no
// file.
func CheckConfig(path string) error {
	if path == "" {
		return nil
	}
	_, err := readWebConfig(path)
	return err
}

// readWebConfig reads the file and the certificates that it names. Its errors contain no hash and no key.
func readWebConfig(path string) (*webConfig, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("%s: %w; name a file in the format of exporter-toolkit's web configuration", path, err)
	}
	c := &webConfig{local: localToken(content), Config: web.Config{
		TLSConfig:  web.TLSConfig{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13},
		HTTPConfig: web.HTTPConfig{HTTP2: true},
	}}
	if err := yaml.Unmarshal(content, &yaml.Node{}); err != nil { // whose text may quote a hash
		return nil, fmt.Errorf("%s: not YAML", path)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c.Config); err != nil && !errors.Is(err, io.EOF) { // an empty file protects nothing
		if wrong, ok := errors.AsType[*yaml.TypeError](err); ok { // which quotes values
			err = fmt.Errorf("not in the format of exporter-toolkit's web configuration; lines or fields that are wrong: %d",
				len(wrong.Errors))
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.load(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s: tls_server_config: %w", path, err)
	}
	return c, nil
}

// load makes the server's TLS configuration, if there is one. The certificate stays the one that was read with the
// file, so that one that is being replaced does not fail handshakes.
func (c *webConfig) load(folder string) (err error) {
	t := &c.TLSConfig
	if !t.IsEnabled() {
		return nil
	}
	t.SetDirectory(folder)
	if c.server, err = web.ConfigToTLSConfig(t); err != nil {
		return err
	}
	if cas := c.server.ClientCAs; cas != nil && cas.Equal(x509.NewCertPool()) {
		return errors.New("client_ca holds no PEM certificate")
	}
	pair, err := c.server.GetCertificate(nil)
	if err != nil {
		return err
	}
	c.server.Certificates, c.server.GetCertificate = []tls.Certificate{*pair}, nil
	c.server.NextProtos = []string{"http/1.1"}
	if c.HTTPConfig.HTTP2 {
		c.server.NextProtos = []string{"h2", "http/1.1"}
	}
	if t.ClientAllowedSans != nil {
		c.server.VerifyPeerCertificate = nil // which is not called for resumed sessions
		c.server.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 { // client_auth_type has decided whether that is allowed
				return nil
			}
			return t.VerifyPeerCertificate([][]byte{state.PeerCertificates[0].Raw}, nil)
		}
	}
	return nil
}

// allowedHeaders are the headers that the format lets the file add to answers, with their allowed values if these are
// limited.
var allowedHeaders = map[string][]string{
	"Strict-Transport-Security": nil, "X-Content-Type-Options": {"nosniff"}, "X-Frame-Options": {"deny", "sameorigin"},
	"X-XSS-Protection": nil, "Content-Security-Policy": nil,
}

func (c *webConfig) check() error {
	for user, hash := range c.Users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return fmt.Errorf("basic_auth_users: the password of %q is not a bcrypt hash; make one with htpasswd -nBC 10 \"\"",
				user)
		}
	}
	for name, value := range c.HTTPConfig.Header {
		values, known := allowedHeaders[name]
		switch {
		case !known:
			return fmt.Errorf("http_server_config: the header %q cannot be set", textproto.TrimString(name))
		case values != nil && !slices.Contains(values, value):
			return fmt.Errorf("http_server_config: the header %s must be one of %q", name, values)
		}
	}
	limit := c.RateLimiterConfig
	if limit.Interval < 0 || limit.Burst < 0 {
		return errors.New("rate_limit: burst and interval must not be negative")
	}
	if limit.Interval > 0 {
		c.limit = rate.NewLimiter(rate.Every(limit.Interval), limit.Burst)
	}
	return nil
}

// localToken is derived from the file's content: the command-line program in the relay's container has the file and no
// password.
func localToken(content []byte) string {
	mac := hmac.New(sha256.New, content)
	mac.Write([]byte("outbox-relay: a caller on the same host"))
	return hex.EncodeToString(mac.Sum(nil))
}
