package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/stdout"
)

// clientName is the name under which brokers and the database show the relay.
const clientName = "outbox-relay"

// newPublisher makes the publisher of the destination with the given index. It connects to no broker.
func (p *program) newPublisher(c *config.Config, number int, out io.Writer, logger *slog.Logger) (
	publisher.Publisher, error,
) {
	d := &c.Destinations[number]
	secure := func() (*tls.Config, error) { return newTLS(d) }
	if d.Broker.TLS { // errors in the settings need not wait for a connection
		if _, err := secure(); err != nil {
			return nil, fmt.Errorf("destination %s: %w", d.Name, err)
		}
	}
	logger = logger.With("destination", d.Name)
	names := settingNames(c, d)
	switch d.Broker.Protocol {
	case publisher.ProtocolKafka:
		return newKafka(d, names, secure, logger)
	case publisher.ProtocolNATS:
		return newNATS(d, names, secure, logger)
	case publisher.ProtocolAMQP:
		return newAMQP(d, names, secure, logger), nil
	}
	if open := p.schemes[d.Broker.Scheme]; open != nil {
		return open(d.PublishURL.Read, logger)
	}
	return stdout.New(out), nil
}

// withPort adds the default port to hosts without one.
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

// newTLS makes the client's TLS configuration with the present authorities. The client certificate is read again at
// each handshake, so that a renewed one is used.
func newTLS(d *config.Destination) (*tls.Config, error) {
	t := d.TLS
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA.IsSet() {
		ca, err := t.CA.Read()
		if err != nil {
			return nil, fmt.Errorf("%s %w", d.Variable("TLS_CA"), err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New(d.Variable("TLS_CA") + " holds no PEM certificate")
		}
	}
	if !t.Cert.IsSet() {
		return c, nil
	}
	read := func() (*tls.Certificate, error) {
		cert, key, err := readPair(t.Cert, d.Variable("TLS_CERT"), t.Key, d.Variable("TLS_KEY"))
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", d.Variable("TLS_CERT"), d.Variable("TLS_KEY"), err)
		}
		return &pair, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return c, nil
}
