package cli

import (
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/relay"
)

// relayConfig returns the relay's configuration with the parts that it works with, except for the database, publishers
// and telemetry.
func relayConfig(c *config.Config, logger *slog.Logger) relay.Config {
	r := c.Config
	r.Logger = logger
	if c.ListenChannel == "" {
		r.ListenChannel = relay.NoChannel
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		d.Paused = func() bool {
			all, alone := c.Pause.On(logger), d.Pause.On(logger)
			return all || alone
		}
	}
	return r
}
