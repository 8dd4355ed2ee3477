package health

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/time/rate"
)

// A webConfig is a file in the format of Prometheus' exporter-toolkit, which says how a port is protected. The toolkit
// itself is not used: its handler asks the kubelet for a password, too, and what it imports (golang.org/x/net/trace with
// html/template) keeps the linker from leaving out unused methods, which makes the binary 28.8 instead of 23.4 MiB.
type webConfig struct {
	TLS   tlsSection        `yaml:"tls_server_config"`
	HTTP  httpSection       `yaml:"http_server_config"`
	Rate  rateSection       `yaml:"rate_limit"`
	Users map[string]string `yaml:"basic_auth_users"` // bcrypt hashes by name

	server *tls.Config   // nil without TLS
	limit  *rate.Limiter // of requests to protected paths; nil for no limit
	local  string        // proof that a caller on this host can read the file, too
}

type httpSection struct {
	HTTP2   bool              `yaml:"http2"`
	Headers map[string]string `yaml:"headers"`
}

type rateSection struct {
	Burst    int           `yaml:"burst"`
	Interval time.Duration `yaml:"interval"` // 0: no limit
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
	c := &webConfig{HTTP: httpSection{HTTP2: true}, local: localToken(content)}
	if err := yaml.Unmarshal(content, &yaml.Node{}); err != nil { // whose text may quote a hash
		return nil, fmt.Errorf("%s: not YAML", path)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) { // an empty file protects nothing
		if wrong, ok := errors.AsType[*yaml.TypeError](err); ok { // which quotes values
			err = fmt.Errorf("not in the format of exporter-toolkit's web configuration; lines or fields that are wrong: %d",
				len(wrong.Errors))
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.server, err = c.TLS.config(filepath.Dir(path), c.HTTP.HTTP2); err != nil {
		return nil, fmt.Errorf("%s: tls_server_config: %w", path, err)
	}
	return c, nil
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
	for name, value := range c.HTTP.Headers {
		values, known := allowedHeaders[name]
		switch {
		case !known:
			return fmt.Errorf("http_server_config: the header %q cannot be set", textproto.TrimString(name))
		case values != nil && !slices.Contains(values, value):
			return fmt.Errorf("http_server_config: the header %s must be one of %q", name, values)
		}
	}
	limit := c.Rate
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
