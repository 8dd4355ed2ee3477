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
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
)

// A webConfig is the part of Prometheus' exporter-toolkit's format that protects a port: TLS and passwords. Any other
// field is refused rather than ignored. The toolkit itself is not used: its handler asks the kubelet for a password,
// too, and what it imports (golang.org/x/net/trace with html/template) keeps the linker from leaving out unused
// methods, which makes the binary 28.8 instead of 23.4 MiB.
type webConfig struct {
	TLS   tlsSection        `yaml:"tls_server_config"`
	Users map[string]string `yaml:"basic_auth_users"` // bcrypt hashes by name

	server *tls.Config // nil without TLS
	local  string      // proof that a caller on this host can read the file, too
}

// CheckConfig returns why the relay could not serve with the file at path, nil if it could.
func CheckConfig(path string) error {
	_, err := readWebConfig(path)
	return err
}

// readWebConfig reads the file and the certificates that it names, nil if the path is empty. Its errors contain no hash
// and no key.
func readWebConfig(path string) (*webConfig, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("%s: %w; name a file in the format of exporter-toolkit's web configuration", path, err)
	}
	c := &webConfig{local: localToken(content)}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	err = decoder.Decode(c) // whose text quotes values, which may be hashes
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		return nil, fmt.Errorf("%s: not in the format of exporter-toolkit's web configuration, of which the relay "+
			"reads basic_auth_users and, in tls_server_config, cert_file, key_file, client_ca_file, client_auth_type "+
			"and min_version; lines or fields that are wrong: %d", path, len(wrong.Errors))
	} else if err != nil && !errors.Is(err, io.EOF) { // an empty file protects nothing
		return nil, fmt.Errorf("%s: not YAML", path)
	}
	for user, hash := range c.Users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("%s: basic_auth_users: the password of %q is not a bcrypt hash; make one with "+
				"htpasswd -nBC 10 \"\"", path, user)
		}
	}
	if c.server, err = c.TLS.config(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s: tls_server_config: %w", path, err)
	}
	return c, nil
}

// localToken is derived from the file's content: the command-line program in the relay's container has the file and no
// password.
func localToken(content []byte) string {
	mac := hmac.New(sha256.New, content)
	mac.Write([]byte("outbox-relay: a caller on the same host"))
	return hex.EncodeToString(mac.Sum(nil))
}
