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
	r := sectionReader{folder: folder}
	cert, key := r.pem("cert_file", s.Cert), r.pem("key_file", s.Key)
	c := &tls.Config{
		MinVersion: choose(&r, "min_version", cmp.Or(s.MinVersion, "TLS12"), tlsVersions),
		MaxVersion: choose(&r, "max_version", cmp.Or(s.MaxVersion, "TLS13"), tlsVersions),
		ClientAuth: choose(&r, "client_auth_type", cmp.Or(s.ClientAuth, "NoClientCert"), clientAuth),
		NextProtos: []string{"h2", "http/1.1"},
	}
	if s.ClientCA != "" {
		c.ClientCAs = x509.NewCertPool()
		ca := r.pem("client_ca_file", s.ClientCA)
		switch {
		case c.ClientAuth == tls.NoClientCert:
			r.note(errors.New("client_ca_file is given without client_auth_type"))
		case !c.ClientCAs.AppendCertsFromPEM(ca):
			r.note(errors.New("client_ca_file holds no PEM certificate"))
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
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
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

// pem returns the content of a file.
func (r *sectionReader) pem(name, path string) []byte {
	if path == "" {
		r.note(errors.New("missing " + name))
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.folder, path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		r.note(fmt.Errorf("%s: %w", name, err))
	}
	return content
}

// choose returns the value that a name stands for.
func choose[T any](r *sectionReader, setting, name string, values map[string]T) T {
	value, known := values[name]
	if !known {
		r.note(fmt.Errorf("%s: unknown value %q", setting, name))
	}
	return value
}
