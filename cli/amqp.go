package cli

import (
	"crypto/tls"
	"log/slog"
	"strings"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// newAMQP makes the publisher of an AMQP destination. Certificates and the URL with its credentials are read
// again for each connection.
func newAMQP(d *config.Destination, names setting.Names, secure func() (*tls.Config, error), logger *slog.Logger,
) publisher.Publisher {
	c := amqp.Config{
		URL: d.PublishURL.Read, Mechanism: d.AMQPMechanism, Exchange: d.AMQPExchange,
		Unrouted: !d.AMQPMandatory, Name: clientName,
		SettingName: names, Logger: logger, TLS: secure,
	}
	if o := d.AMQPOAuth; o.IsSet() {
		c.Tokens = newTokens(o, "OUTBOX_AMQP_OAUTH_", d.TLS, logger)
	}
	if strings.ContainsAny(c.Exchange, "{}") { // a template, which the relay fills in
		c.Exchange = ""
	}
	if d.AMQPManagement.IsSet() {
		c.Management = d.AMQPManagement.Read
	}
	return amqp.New(c)
}
