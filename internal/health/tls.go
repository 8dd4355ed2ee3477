package health

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// tlsSection is the section tls_server_config of a [webConfig]. Paths are relative to the file.
type tlsSection struct {
	Cert       string   `yaml:"cert_file"`
	Key        string   `yaml:"key_file"`
	ClientCA   string   `yaml:"client_ca_file"`
	ClientAuth string   `yaml:"client_auth_type"`
	ClientSANs []string `yaml:"client_allowed_sans"`
	MinVersion string   `yaml:"min_version"`
	MaxVersion string   `yaml:"max_version"`
}

var (
	tlsVersions = map[string]uint16{
		"TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13,
	}
	clientAuth = map[string]tls.ClientAuthType{
		"NoClientCert": tls.NoClientCert, "RequestClientCert": tls.RequestClientCert,
		"RequireAnyClientCert": tls.RequireAnyClientCert, "RequireClientCert": tls.RequireAnyClientCert,
		"VerifyClientCertIfGiven":    tls.VerifyClientCertIfGiven,
		"RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
	}
)

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
	minVersion, knownMin := tlsVersions[cmp.Or(s.MinVersion, "TLS12")]
	maxVersion, knownMax := tlsVersions[cmp.Or(s.MaxVersion, "TLS13")]
	auth, knownAuth := clientAuth[cmp.Or(s.ClientAuth, "NoClientCert")]
	switch {
	case s.Cert == "":
		return nil, errors.New("missing cert_file")
	case s.Key == "":
		return nil, errors.New("missing key_file")
	case !knownMin || !knownMax:
		return nil, fmt.Errorf("min_version and max_version: unknown value among %q and %q", s.MinVersion, s.MaxVersion)
	case !knownAuth:
		return nil, fmt.Errorf("client_auth_type: unknown value %q", s.ClientAuth)
	case s.ClientCA != "" && auth == tls.NoClientCert:
		return nil, errors.New("client_ca_file is given without client_auth_type")
	}
	pair, err := tls.LoadX509KeyPair(at(s.Cert), at(s.Key))
	if err != nil {
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
	}
	c := &tls.Config{
		MinVersion: minVersion, MaxVersion: maxVersion, ClientAuth: auth, Certificates: []tls.Certificate{pair},
		NextProtos: []string{"h2", "http/1.1"},
	}
	if s.ClientCA != "" {
		text, err := os.ReadFile(at(s.ClientCA))
		if c.ClientCAs = x509.NewCertPool(); err == nil && !c.ClientCAs.AppendCertsFromPEM(text) {
			err = errors.New("holds no PEM certificate")
		}
		if err != nil {
			return nil, fmt.Errorf("client_ca_file: %w", err)
		}
	}
	if s.ClientSANs != nil {
		c.VerifyConnection = s.allowed // unlike VerifyPeerCertificate, it is also called for resumed sessions
	}
	return c, nil
}

// allowed compares the names in a client's certificate with the allowed ones.
func (s *tlsSection) allowed(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 { // client_auth_type has decided whether that is allowed
		return nil
	}
	certificate := state.PeerCertificates[0]
	names := slices.Concat(certificate.DNSNames, certificate.EmailAddresses)
	for _, ip := range certificate.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range certificate.URIs {
		names = append(names, uri.String())
	}
	if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(s.ClientSANs, name) }) {
		return errors.New("the client certificate has none of the names in client_allowed_sans")
	}
	return nil
}
