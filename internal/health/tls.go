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
	Cert         string   `yaml:"cert"`
	CertFile     string   `yaml:"cert_file"`
	Key          string   `yaml:"key"`
	KeyFile      string   `yaml:"key_file"`
	ClientCA     string   `yaml:"client_ca"`
	ClientCAFile string   `yaml:"client_ca_file"`
	ClientAuth   string   `yaml:"client_auth_type"`
	ClientSANs   []string `yaml:"client_allowed_sans"`
	Ciphers      []string `yaml:"cipher_suites"`
	Curves       []string `yaml:"curve_preferences"`
	MinVersion   string   `yaml:"min_version"`
	MaxVersion   string   `yaml:"max_version"`
	PreferServer bool     `yaml:"prefer_server_cipher_suites"` // without effect: Go chooses
}

var (
	tlsVersions = map[string]uint16{
		"TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13,
	}
	tlsCurves = map[string]tls.CurveID{
		"CurveP256": tls.CurveP256, "CurveP384": tls.CurveP384, "CurveP521": tls.CurveP521, "X25519": tls.X25519,
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
func (s *tlsSection) config(folder string, http2 bool) (*tls.Config, error) {
	if cmp.Or(s.Cert, s.CertFile, s.Key, s.KeyFile, s.ClientCA, s.ClientCAFile, s.ClientAuth) == "" {
		return nil, nil
	}
	r := sectionReader{folder: folder}
	cert, key := r.pem("cert", s.Cert, s.CertFile), r.pem("key", s.Key, s.KeyFile)
	c := &tls.Config{
		MinVersion: choose(&r, "min_version", cmp.Or(s.MinVersion, "TLS12"), tlsVersions),
		MaxVersion: choose(&r, "max_version", cmp.Or(s.MaxVersion, "TLS13"), tlsVersions),
		ClientAuth: choose(&r, "client_auth_type", cmp.Or(s.ClientAuth, "NoClientCert"), clientAuth),
		NextProtos: []string{"http/1.1"},
	}
	if http2 {
		c.NextProtos = []string{"h2", "http/1.1"}
	}
	for _, name := range s.Curves {
		c.CurvePreferences = append(c.CurvePreferences, choose(&r, "curve_preferences", name, tlsCurves))
	}
	ciphers := map[string]uint16{}
	for _, suite := range tls.CipherSuites() {
		ciphers[suite.Name] = suite.ID
	}
	for _, name := range s.Ciphers {
		c.CipherSuites = append(c.CipherSuites, choose(&r, "cipher_suites", name, ciphers))
	}
	if cmp.Or(s.ClientCA, s.ClientCAFile) != "" {
		c.ClientCAs = x509.NewCertPool()
		ca := r.pem("client_ca", s.ClientCA, s.ClientCAFile)
		switch {
		case c.ClientAuth == tls.NoClientCert:
			r.note(errors.New("client_ca is given without client_auth_type"))
		case !c.ClientCAs.AppendCertsFromPEM(ca):
			r.note(errors.New("client_ca holds no PEM certificate"))
		}
	}
	if s.ClientSANs != nil {
		c.VerifyConnection = s.allowed // unlike VerifyPeerCertificate, it is also called for resumed sessions
	}
	if r.err != nil {
		return nil, r.err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
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

// A sectionReader reads the values of a section. It keeps the first error.
type sectionReader struct {
	folder string
	err    error
}

func (r *sectionReader) note(err error) { r.err = cmp.Or(r.err, err) }

// pem returns a PEM text that is given inline or as a file.
func (r *sectionReader) pem(name, text, path string) []byte {
	switch {
	case path == "" && text == "":
		r.note(fmt.Errorf("missing one of %s or %[1]s_file", name))
	case path != "":
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.folder, path)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			r.note(fmt.Errorf("%s_file: %w", name, err))
		}
		return content
	}
	return []byte(text)
}

// choose returns the value that a name stands for.
func choose[T any](r *sectionReader, setting, name string, values map[string]T) T {
	value, known := values[name]
	if !known {
		r.note(fmt.Errorf("%s: unknown value %q", setting, name))
	}
	return value
}
