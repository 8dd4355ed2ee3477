package cli

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/kafka"
)

// newKafka makes the publisher of a Kafka destination. Certificates and credentials are read again for each
// connection.
func newKafka(d *config.Destination, names setting.Names, secure func() (*tls.Config, error), logger *slog.Logger) (
	publisher.Publisher, error,
) {
	c := kafka.Config{
		Brokers: withPort(d.Broker.Hosts, "9092"), PartitionHeader: d.Kafka.PartitionHeader,
		SendingTime: d.Kafka.Timestamp == config.TimestampNow, ClientID: clientName, SettingName: names, Logger: logger,
	}
	var err error
	if c.Compression, err = kafka.Compression(d.Kafka.Compression); err != nil {
		return nil, fmt.Errorf("destination %s: %w", d.Name, err)
	}
	if c.Partitioner, err = kafka.ParsePartitioner(d.Kafka.Partitioner); err != nil {
		return nil, fmt.Errorf("destination %s: %w", d.Name, err)
	}
	if d.Broker.TLS {
		c.TLS = secure
	}
	switch d.Kafka.SASLMechanism {
	case "":
	case config.MechanismOAuth:
		mechanism := kafka.OAuth(newTokens(d.Kafka.OAuth, "OUTBOX_KAFKA_OAUTH_", d.TLS, logger),
			d.Kafka.OAuthExtensions...)
		c.SASL = func() (sasl.Mechanism, error) { return mechanism, nil }
	case config.MechanismIAM:
		mechanism := kafka.IAM(awsKeys(logger), d.Kafka.AWSRegion, cmp.Or(os.Getenv("AWS_REGION"),
			os.Getenv("AWS_DEFAULT_REGION")), clientName)
		c.SASL = func() (sasl.Mechanism, error) { return mechanism, nil }
	default:
		c.SASL = func() (sasl.Mechanism, error) {
			user, password, err := readPair(d.Kafka.Username, d.Variable("KAFKA_SASL_USERNAME"), d.Kafka.Password,
				d.Variable("KAFKA_SASL_PASSWORD"))
			if err != nil {
				return nil, err
			}
			return kafka.Mechanism(d.Kafka.SASLMechanism, user, password)
		}
	}
	return kafka.New(c), nil
}

// readPair reads the present values of two secrets.
func readPair(a config.Secret, nameA string, b config.Secret, nameB string) (first, second string, err error) {
	if first, err = a.Read(); err != nil {
		return "", "", fmt.Errorf("%s %w", nameA, err)
	}
	if second, err = b.Read(); err != nil {
		return "", "", fmt.Errorf("%s %w", nameB, err)
	}
	return first, second, nil
}
