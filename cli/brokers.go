package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/kafka"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
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
	logger = logger.With("destination", d.Name)
	switch d.Broker.Protocol {
	case publisher.ProtocolKafka:
		return newKafka(d, secure, logger), nil
	case publisher.ProtocolNATS:
		return newNATS(d, secure, logger)
	case publisher.ProtocolAMQP:
		return newAMQP(d, secure, logger), nil
	}
	if open := p.schemes[d.Broker.Scheme]; open != nil {
		return open(d.PublishURL.Read, logger)
	}
	return stdout.New(out), nil
}

// newTLS makes the client's TLS configuration with the present authorities and the present certificate. It is called
// for each connection.
func newTLS(d *config.Destination) (*tls.Config, error) {
	t, names := d.TLS, setting.Names(d.SettingName)
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA.IsSet() {
		ca, err := t.CA.Read()
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New(names.Of("TLS.RootCAs") + " holds no PEM certificate")
		}
	}
	if !t.Cert.IsSet() {
		return c, nil
	}
	cert, key, err := readPair(t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names.Of("TLS.Certificates"), err)
	}
	// Whichever authorities the server names: it may know that of the certificate only by another one.
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return c, nil
}

// newKafka makes the publisher of a Kafka destination. Certificates and credentials are read again for each
// connection.
func newKafka(d *config.Destination, secure func() (*tls.Config, error), logger *slog.Logger) publisher.Publisher {
	c := kafka.Config{
		Brokers: d.Broker.Hosts, PartitionHeader: d.Kafka.PartitionHeader,
		SendingTime: d.Kafka.Timestamp == config.TimestampNow, ClientID: clientName, SettingName: d.SettingName,
		Logger: logger,
	}
	_ = c.Compression.UnmarshalText([]byte(d.Kafka.Compression)) // the settings have only names that exist
	c.Partitioner, _ = kafka.ParsePartitioner(d.Kafka.Partitioner)
	if d.Broker.TLS {
		c.TLS = secure
	}
	switch d.Kafka.SASLMechanism {
	case "":
	case config.MechanismOAuth:
		mechanism := &kafka.OAuth{
			Tokens:     newTokens(d.Kafka.OAuth, "OUTBOX_KAFKA_OAUTH_", d.TLS, logger),
			Extensions: d.Kafka.OAuthExtensions,
		}
		c.SASL = func() (sasl.Mechanism, error) { return mechanism, nil }
	case config.MechanismIAM:
		mechanism := &kafka.IAM{
			Keys: awsKeys(logger), UserAgent: clientName,
			Region: cmp.Or(d.Kafka.AWSRegion, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		}
		c.SASL = func() (sasl.Mechanism, error) { return mechanism, nil }
	default:
		c.SASL = func() (sasl.Mechanism, error) {
			user, password, err := readPair(d.Kafka.Username, d.Kafka.Password)
			if err != nil {
				return nil, err
			}
			return kafka.Mechanism(d.Kafka.SASLMechanism, user, password)
		}
	}
	return kafka.New(c)
}

// readPair reads the present values of two secrets.
func readPair(a, b config.Secret) (first, second string, err error) {
	if first, err = a.Read(); err == nil {
		second, err = b.Read()
	}
	return first, second, err
}

// newNATS makes the publisher of a NATS destination. Certificates and credentials are read again for each
// connection.
func newNATS(d *config.Destination, secure func() (*tls.Config, error), logger *slog.Logger) (
	publisher.Publisher, error,
) {
	c := nats.Config{
		Servers: d.Broker.Hosts, Auth: natsAuth(d), TLSFirst: d.NATS.TLSFirst,
		Stream: d.NATS.Stream, Domain: d.NATS.Domain, InboxPrefix: d.NATS.InboxPrefix,
		Name: clientName, SettingName: d.SettingName, Logger: logger,
		Timeout: d.PublishTimeout,
	}
	if d.Broker.TLS {
		c.TLS = secure
	}
	return nats.New(c)
}

// natsAuth returns a function that reads the present credentials.
func natsAuth(d *config.Destination) func() (nats.Auth, error) {
	return func() (auth nats.Auth, err error) {
		credentials, seed, err := readPair(d.NATS.Creds, d.NATS.Nkey)
		if err == nil {
			auth.Token, err = d.NATS.Token.Read()
		}
		auth.Credentials, auth.Seed = []byte(credentials), []byte(seed)
		if err != nil || len(credentials)+len(seed)+len(auth.Token) > 0 {
			return auth, err
		}
		broker, err := d.ReadBroker()
		if err != nil {
			return auth, err
		}
		if password, given := broker.User.Password(); given {
			auth.User, auth.Password = broker.User.Username(), password
		} else {
			auth.Token = broker.User.Username()
		}
		return auth, nil
	}
}

// newAMQP makes the publisher of an AMQP destination. Certificates and the URL with its credentials are read
// again for each connection.
func newAMQP(d *config.Destination, secure func() (*tls.Config, error), logger *slog.Logger) publisher.Publisher {
	c := amqp.Config{
		URL: d.PublishURL.Read, Mechanism: d.AMQPMechanism, Exchange: d.AMQPExchange,
		Unrouted: !d.AMQPMandatory, Name: clientName,
		SettingName: d.SettingName, Logger: logger, TLS: secure,
	}
	if o := d.AMQPOAuth; o.IsSet() {
		c.Tokens = newTokens(o, "OUTBOX_AMQP_OAUTH_", d.TLS, logger)
	}
	if d.AMQPManagement.IsSet() {
		c.Management = d.AMQPManagement.Read
	}
	return amqp.New(c)
}
