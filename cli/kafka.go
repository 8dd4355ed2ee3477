package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/kafka"
)

// newKafka makes the publisher of a Kafka destination. Certificates and credentials are read again for each
// connection.
func newKafka(d config.Destination, logger *slog.Logger, certificates *doctor.Certificates) (publisher.Publisher, error) {
	c := kafka.Config{Brokers: withPort(d.Broker.Hosts, "9092"), PartitionHeader: d.Kafka.PartitionHeader,
		SendingTime: d.Kafka.Timestamp == config.TimestampNow, ClientID: clientName, Logger: logger}
	var err error
	if c.Compression, err = kafka.Compression(d.Kafka.Compression); err != nil {
		return nil, fmt.Errorf("destination %s: %w", d.Name, err)
	}
	if c.Partitioner, err = kafka.ParsePartitioner(d.Kafka.Partitioner); err != nil {
		return nil, fmt.Errorf("destination %s: %w", d.Name, err)
	}
	if d.Broker.TLS {
		c.TLS = func() (*tls.Config, error) { return newTLS(d, certificates) }
	}
	switch d.Kafka.SASLMechanism {
	case "":
	case config.MechanismOAuth:
		mechanism := kafkaOAuth(d)
		c.SASL = func() (sasl.Mechanism, error) { return mechanism, nil }
	default:
		c.SASL = func() (sasl.Mechanism, error) {
			user, password, err := readPair(d.Kafka.Username, "OUTBOX_KAFKA_SASL_USERNAME", d.Kafka.Password, "OUTBOX_KAFKA_SASL_PASSWORD")
			if err != nil {
				return nil, err
			}
			return kafka.Mechanism(d.Kafka.SASLMechanism, user, password)
		}
	}
	return kafka.New(c), nil
}

// kafkaOAuth returns the mechanism OAUTHBEARER with tokens from where the settings say.
func kafkaOAuth(d config.Destination) sasl.Mechanism {
	o := d.Kafka.OAuth
	if o.Token.IsSet() {
		return kafka.OAuth(func(context.Context) (string, error) {
			token, err := o.Token.Read()
			if err != nil {
				return "", fmt.Errorf("OUTBOX_KAFKA_OAUTH_TOKEN %w", err)
			}
			return token, nil
		}, o.Extensions...)
	}
	endpoint := &kafka.ClientCredentials{URL: o.TokenURL, Scope: o.Scope, Client: tokenClient(d.TLS),
		Credentials: func() (id, secret string, err error) {
			return readPair(o.ClientID, "OUTBOX_KAFKA_OAUTH_CLIENT_ID", o.ClientSecret, "OUTBOX_KAFKA_OAUTH_CLIENT_SECRET")
		}}
	return endpoint.Mechanism(o.Extensions...)
}

// tokenClient trusts the broker's authorities beside those of the system: a private identity provider often
// has the same.
func tokenClient(t config.TLS) *http.Client {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM([]byte(t.CA.Loaded()))
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
}

// readPair reads two secrets as they are now.
func readPair(a config.Secret, nameA string, b config.Secret, nameB string) (first, second string, err error) {
	if first, err = a.Read(); err != nil {
		return "", "", fmt.Errorf("%s %w", nameA, err)
	}
	if second, err = b.Read(); err != nil {
		return "", "", fmt.Errorf("%s %w", nameB, err)
	}
	return first, second, nil
}
