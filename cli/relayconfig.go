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
	if c.PruneAfter > 0 {
		r.SpareConnections = 1
	}
	everything := newPauseFile(c.Pause, logger)
	for i := range c.Destinations {
		d := &c.Destinations[i]
		own := newPauseFile(d.Pause, logger)
		d.Paused = func() bool {
			all, alone := everything.paused(), own.paused()
			return all || alone
		}
		r.Destinations = append(r.Destinations, d.Destination)
	}
	return r
}

// pauseFile follows a setting that pauses, which may be a file. If the file is neither true nor false, the state does
// not change and the problem is logged once.
type pauseFile struct {
	config.Switch
	logger *slog.Logger
	on     bool
	logged string // the problem with the file that was logged last, empty if there is none
}

func newPauseFile(s config.Switch, logger *slog.Logger) *pauseFile {
	return &pauseFile{Switch: s, logger: logger}
}

// paused returns the present value of the setting. One goroutine calls it.
func (p *pauseFile) paused() bool {
	on, err := p.Read()
	switch {
	case err == nil:
		p.on, p.logged = on, ""
	case p.logged != err.Error():
		p.logged = err.Error()
		p.logger.Warn("pause file is neither true nor false; the last state is kept", "file", p.File(), "paused", p.on,
			"error", err)
	}
	return p.on
}
