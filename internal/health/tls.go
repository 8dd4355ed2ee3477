package health

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// tlsSection is the section tls_server_config of a [webConfig]. Paths are relative to the file.
type tlsSection struct {
	Cert       string `yaml:"cert_file"`
	Key        string `yaml:"key_file"`
	ClientCA   string `yaml:"client_ca_file"`
	ClientAuth string `yaml:"client_auth_type"`
	MinVersion string `yaml:"min_version"`
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
