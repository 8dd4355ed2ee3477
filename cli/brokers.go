package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/stdout"
)

// clientName is how brokers and the database show the relay.
const clientName = "outbox-relay"

// newPublisher makes the publisher of a destination; it reaches no broker.
func (p *program) newPublisher(d config.Destination, out io.Writer, logger *slog.Logger,
	certificates *doctor.Certificates) (publisher.Publisher, error) {
	if d.Broker.TLS { // what is wrong from the start need not wait for a connection
		if _, err := newTLS(d, nil); err != nil {
			return nil, fmt.Errorf("destination %s: %w", d.Name, err)
		}
	}
	logger = logger.With("destination", d.Name)
	switch d.Broker.Protocol {
	case publisher.ProtocolKafka:
		return newKafka(d, logger, certificates)
	case publisher.ProtocolNATS:
		return newNATS(d, logger, certificates)
	case publisher.ProtocolAMQP:
		return newAMQP(d, logger, certificates), nil
	}
	if open := p.schemes[d.Broker.Scheme]; open != nil {
		return open(d.PublishURL.Read, logger)
	}
	return stdout.New(out), nil
}

// withPort adds the usual port to hosts that come without one.
func withPort(hosts []string, port string) []string {
	with := make([]string, len(hosts))
	for i, host := range hosts {
		with[i] = host
		if end := strings.LastIndexByte(host, ']'); !strings.Contains(host[end+1:], ":") {
			with[i] = host + ":" + port
		}
	}
	return with
}

// certificatesIn returns the certificates in a PEM text.
func certificatesIn(text config.Secret) []*x509.Certificate {
	var found []*x509.Certificate
	for rest := []byte(text.Loaded()); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return found
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, c)
		}
	}
}

// newTLS makes the client's side of TLS with the authorities as they are now. The client certificate is read
// again at each handshake, so that a renewed one is taken.
func newTLS(d config.Destination, certificates *doctor.Certificates) (*tls.Config, error) {
	t := d.TLS
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	certificates.Note(d.Name, c)
	if t.CA.IsSet() {
		ca, err := t.CA.Read()
		if err != nil {
			return nil, fmt.Errorf("OUTBOX_TLS_CA %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("OUTBOX_TLS_CA holds no PEM certificate")
		}
	}
	if !t.Cert.IsSet() {
		return c, nil
	}
	read := func() (*tls.Certificate, error) {
		cert, err := t.Cert.Read()
		if err != nil {
			return nil, err
		}
		key, err := t.Key.Read()
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("OUTBOX_TLS_CERT and OUTBOX_TLS_KEY: %w", err)
		}
		return &pair, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return c, nil
}
