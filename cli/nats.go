package cli

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// newNATS makes the publisher of a NATS destination. Certificates and credentials are read again for each
// connection.
func newNATS(d *config.Destination, names setting.Names, secure func() (*tls.Config, error), logger *slog.Logger) (
	publisher.Publisher, error,
) {
	c := nats.Config{
		Servers: withPort(d.Broker.Hosts, "4222"), Auth: natsAuth(d), TLSFirst: d.NATS.TLSFirst,
		Stream: d.NATS.Stream, Domain: d.NATS.Domain, InboxPrefix: d.NATS.InboxPrefix,
		Name: clientName, SettingName: names, Logger: logger,
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
		read := func(key string, from config.Secret) string {
			text, failure := from.Read()
			if failure != nil && err == nil {
				err = fmt.Errorf("%s %w", d.Variable(key), failure)
			}
			return text
		}
		auth.Credentials, auth.Seed = []byte(read("NATS_CREDS", d.NATS.Creds)), []byte(read("NATS_NKEY", d.NATS.Nkey))
		auth.Token = read("NATS_TOKEN", d.NATS.Token)
		if err != nil || len(auth.Credentials)+len(auth.Seed)+len(auth.Token) > 0 {
			return auth, err
		}
		broker, err := d.ReadBroker()
		if err != nil {
			return auth, fmt.Errorf("%s %w", d.Variable("PUBLISH_URL"), err)
		}
		if password, given := broker.User.Password(); given {
			auth.User, auth.Password = broker.User.Username(), password
		} else {
			auth.Token = broker.User.Username()
		}
		return auth, nil
	}
}
