package health

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// tlsSection is tls_server_config of a webConfig.
type tlsSection struct {
	Cert         string   `yaml:"cert"`
	Key          string   `yaml:"key"`
	ClientCA     string   `yaml:"client_ca"`
	CertFile     string   `yaml:"cert_file"` // paths are relative to the file
	KeyFile      string   `yaml:"key_file"`
	ClientCAFile string   `yaml:"client_ca_file"`
	ClientAuth   string   `yaml:"client_auth_type"`
	ClientSANs   []string `yaml:"client_allowed_sans"`
	Ciphers      []string `yaml:"cipher_suites"`
	Curves       []string `yaml:"curve_preferences"`
	MinVersion   string   `yaml:"min_version"`
	MaxVersion   string   `yaml:"max_version"`
	PreferServer bool     `yaml:"prefer_server_cipher_suites"` // Go chooses
}

var (
	tlsVersions = map[string]uint16{"TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}
	tlsCurves   = map[string]tls.CurveID{
		"CurveP256": tls.CurveP256, "CurveP384": tls.CurveP384, "CurveP521": tls.CurveP521,
		"X25519": tls.X25519,
	}
	clientAuth = map[string]tls.ClientAuthType{
		"": tls.NoClientCert, "NoClientCert": tls.NoClientCert, "RequestClientCert": tls.RequestClientCert,
		"RequireAnyClientCert": tls.RequireAnyClientCert, "RequireClientCert": tls.RequireAnyClientCert,
		"VerifyClientCertIfGiven": tls.VerifyClientCertIfGiven, "RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
	}
)

func (s *tlsSection) enabled() bool {
	return s.Cert != "" || s.CertFile != "" || s.Key != "" || s.KeyFile != "" || s.ClientCA != "" || s.ClientCAFile != "" || s.ClientAuth != ""
}

// config returns the server's TLS configuration, nil if the section does not configure TLS.
func (s *tlsSection) config(folder string, http2 bool) (*tls.Config, error) {
	if !s.enabled() {
		return nil, nil
	}
	cert, err := pemText(folder, "cert", s.Cert, s.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := pemText(folder, "key", s.Key, s.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"},
	}
	if http2 {
		c.NextProtos = []string{"h2", "http/1.1"}
	}
	return c, errors.Join(s.setVersions(c), s.setChoices(c), s.setClients(c, folder))
}

// pemText returns a PEM text that is given inline or as a file.
func pemText(folder, name, text, path string) ([]byte, error) {
	switch {
	case text != "":
		return []byte(text), nil
	case path == "":
		return nil, fmt.Errorf("needs %s or %s_file", name, name)
	case !filepath.IsAbs(path):
		path = filepath.Join(folder, path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s_file: %w", name, err)
	}
	return content, nil
}

func (s *tlsSection) setVersions(c *tls.Config) error {
	for _, version := range []struct {
		name string
		to   *uint16
	}{{s.MinVersion, &c.MinVersion}, {s.MaxVersion, &c.MaxVersion}} {
		if version.name == "" {
			continue
		}
		number, known := tlsVersions[version.name]
		if !known {
			return fmt.Errorf("unknown TLS version %q; write TLS12 or TLS13", version.name)
		}
		*version.to = number
	}
	return nil
}

func (s *tlsSection) setChoices(c *tls.Config) error {
	for _, name := range s.Curves {
		curve, known := tlsCurves[name]
		if !known {
			return fmt.Errorf("unknown curve %q", name)
		}
		c.CurvePreferences = append(c.CurvePreferences, curve)
	}
	for _, name := range s.Ciphers {
		all := tls.CipherSuites()
		at := slices.IndexFunc(all, func(suite *tls.CipherSuite) bool { return suite.Name == name })
		if at < 0 {
			return fmt.Errorf("unknown or insecure cipher suite %q", name)
		}
		c.CipherSuites = append(c.CipherSuites, all[at].ID)
	}
	return nil
}

// setClients sets which client certificates are requested.
func (s *tlsSection) setClients(c *tls.Config, folder string) error {
	var known bool
	if c.ClientAuth, known = clientAuth[s.ClientAuth]; !known {
		return fmt.Errorf("unknown client_auth_type %q", s.ClientAuth)
	}
	if s.ClientCA != "" || s.ClientCAFile != "" {
		if c.ClientAuth == tls.NoClientCert {
			return errors.New("client_ca is given without client_auth_type")
		}
		ca, err := pemText(folder, "client_ca", s.ClientCA, s.ClientCAFile)
		if err != nil {
			return err
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(ca) {
			return errors.New("client_ca holds no PEM certificate")
		}
	}
	if s.ClientSANs != nil {
		c.VerifyConnection = s.allowed // also for resumed sessions
	}
	return nil
}

// allowed compares the names in a client's certificate with the allowed names.
func (s *tlsSection) allowed(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 { // client_auth_type has decided whether that is allowed
		return nil
	}
	certificate := state.PeerCertificates[0]
	names := append(slices.Clone(certificate.DNSNames), certificate.EmailAddresses...)
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
