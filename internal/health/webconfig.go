package health

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
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

// A tlsSection is the section tls_server_config of a [webConfig]. Paths are relative to the file.
type tlsSection struct {
	Cert       string `yaml:"cert_file"`
	Key        string `yaml:"key_file"`
	ClientCA   string `yaml:"client_ca_file"`
	ClientAuth string `yaml:"client_auth_type"`
	MinVersion string `yaml:"min_version"`
}

// CheckConfig returns why the relay could not serve with the file at path, nil if it could.
func CheckConfig(path string) error {
	_, err := readWebConfig(path)
	return err
}

// readWebConfig reads the file and the certificates that it names. If the path is empty, nothing is protected. Its
// errors contain no hash and no key.
func readWebConfig(path string) (*webConfig, error) {
	c := &webConfig{}
	if path == "" {
		return c, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name a file in the format of exporter-toolkit's web configuration", err)
	}
	// The command-line program in the relay's container has the file and no password.
	proof := sha256.Sum256(append([]byte("outbox-relay: a caller on the same host\n"), content...))
	c.local = hex.EncodeToString(proof[:])
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	err = decoder.Decode(c)                    // whose text quotes values, which may be hashes
	if err != nil && !errors.Is(err, io.EOF) { // an empty file protects nothing
		return nil, fmt.Errorf("%s: not YAML in the format of exporter-toolkit's web configuration, of which the "+
			"relay reads basic_auth_users and, in tls_server_config, cert_file, key_file, client_ca_file, "+
			"client_auth_type and min_version", path)
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

var clientAuth = map[string]tls.ClientAuthType{
	"NoClientCert": tls.NoClientCert, "RequestClientCert": tls.RequestClientCert,
	"RequireAnyClientCert": tls.RequireAnyClientCert, "RequireClientCert": tls.RequireAnyClientCert,
	"VerifyClientCertIfGiven":    tls.VerifyClientCertIfGiven,
	"RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
}

var minVersions = map[string]uint16{"TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}

// config returns the server's TLS configuration, nil if the section does not configure TLS. The certificate stays the
// one that was read with the file, so that one that is being replaced does not fail handshakes.
func (s *tlsSection) config(folder string) (*tls.Config, error) {
	if cmp.Or(s.Cert, s.Key, s.ClientCA, s.ClientAuth) == "" {
		return nil, nil
	}
	at := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(folder, path)
	}
	auth, knownAuth := clientAuth[cmp.Or(s.ClientAuth, "NoClientCert")]
	minVersion, knownVersion := minVersions[cmp.Or(s.MinVersion, "TLS12")]
	switch {
	case s.Cert == "" || s.Key == "":
		return nil, errors.New("cert_file or key_file is missing")
	case !knownAuth:
		return nil, fmt.Errorf("client_auth_type: unknown value %q", s.ClientAuth)
	case !knownVersion:
		return nil, fmt.Errorf("min_version: unknown value %q; write TLS12 or TLS13", s.MinVersion)
	case s.ClientCA != "" && auth == tls.NoClientCert:
		return nil, errors.New("client_ca_file is given without client_auth_type")
	}
	pair, err := tls.LoadX509KeyPair(at(s.Cert), at(s.Key))
	if err != nil {
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
	}
	c := &tls.Config{MinVersion: minVersion, ClientAuth: auth, Certificates: []tls.Certificate{pair}}
	if s.ClientCA != "" {
		text, err := os.ReadFile(at(s.ClientCA))
		if c.ClientCAs = x509.NewCertPool(); err == nil && !c.ClientCAs.AppendCertsFromPEM(text) {
			err = errors.New("holds no PEM certificate")
		}
		if err != nil {
			return nil, fmt.Errorf("client_ca_file: %w", err)
		}
	}
	return c, nil
}
