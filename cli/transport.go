package cli

import (
	"log/slog"
	"net/url"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// transports returns the connections to a destination's broker, with their protection.
func transports(d config.Destination) []doctor.Transport {
	broker := d.Broker
	if broker.Protocol == "" {
		return nil
	}
	ways := []doctor.Transport{{
		Hosts: broker.Hosts, Encrypted: broker.TLS, Secret: readable(d),
		Remedy: "use the URL's form with TLS: kafka+tls://, nats+tls://, wss:// or amqps://",
	}}
	more := func(address, remedy string, secret bool) {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			ways = append(ways, doctor.Transport{
				Hosts: []string{u.Host}, Encrypted: u.Scheme == "https", Secret: secret, Remedy: remedy,
			})
		}
	}
	more(d.AMQPManagement.Loaded(), "let the management interface listen with TLS, and write https:// in "+
		"OUTBOX_AMQP_MANAGEMENT_URL", true)
	more(d.AMQPOAuth.TokenURL.Loaded(), "write https:// in OUTBOX_AMQP_OAUTH_TOKEN_URL", true)
	if d.Kafka.SASLMechanism == config.MechanismOAuth {
		more(d.Kafka.OAuth.TokenURL.Loaded(), "write https:// in OUTBOX_KAFKA_OAUTH_TOKEN_URL", true)
	}
	return ways
}

// readable reports whether a password or token is sent to the broker in a form that an eavesdropper can use. The
// signature of AWS_MSK_IAM is one, for some minutes. SCRAM, NKeys and credentials files answer a challenge instead.
func readable(d config.Destination) bool {
	switch d.Broker.Protocol {
	case publisher.ProtocolKafka:
		return d.Kafka.SASLMechanism == "PLAIN" || d.Kafka.SASLMechanism == config.MechanismOAuth ||
			d.Kafka.SASLMechanism == config.MechanismIAM
	case publisher.ProtocolNATS:
		return d.Broker.HasUser || d.NATS.Token.IsSet()
	default:
		return d.Broker.HasUser || d.AMQPOAuth.IsSet()
	}
}

// warnOfPlainPasswords logs a warning once about passwords and tokens that are sent to another host in readable form.
func warnOfPlainPasswords(c *config.Config, logger *slog.Logger) {
	logged := map[string]bool{}
	warn := func(to, remedy string) {
		if !logged[to] {
			logged[to] = true
			logger.Warn("password or token is sent unencrypted to another host", "host", to, "remedy", remedy)
		}
	}
	for _, setting := range []struct {
		name string
		url  config.Secret
	}{{"OUTBOX_DATABASE_URL", c.Database.URL}, {"OUTBOX_DATABASE_DIRECT_URL", c.Database.DirectURL}} {
		parsed, err := pgconn.ParseConfig(setting.url.Loaded())
		if err != nil || parsed.Password == "" {
			continue
		}
		if s := doctor.DatabaseSecurity(parsed); s.Plain != "" {
			warn(s.Plain, "add sslmode=verify-full and sslrootcert=FILE to "+setting.name)
		}
	}
	for _, d := range c.Destinations {
		for _, way := range transports(d) {
			if address := way.Exposed(); way.Secret && address != "" {
				warn(address, way.Remedy)
			}
		}
	}
}
