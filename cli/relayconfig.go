package cli

import (
	"log/slog"
	"strings"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay"
)

// relayConfig returns the relay's configuration from the settings, except for the database, publishers and telemetry.
func relayConfig(c *config.Config, logger *slog.Logger) relay.Config {
	r := relay.Config{
		Table: c.Table.Name, Columns: c.Table.Columns, Key: c.Table.Key,
		Delete:    c.Settle == config.SettleDelete,
		BatchSize: c.BatchSize, MaxInFlight: c.MaxInFlight, MaxInFlightBytes: c.MaxInFlightBytes,
		MaxRowBytes:  c.MaxRowBytes,
		PollInterval: c.PollInterval, ListenChannel: c.ListenChannel, Shards: c.Shards, OwnerTTL: c.OwnerTTL,
		StopTimeout: c.ShutdownTimeout, TraceRows: c.TraceRows, Logger: logger, SettingName: settingNames(c, nil),
	}
	if c.ListenChannel == "" {
		r.ListenChannel = relay.NoChannel
	}
	if c.PruneAfter > 0 {
		r.SpareConnections = 1
	}
	everything := newPauseFile(c.Pause, logger)
	for _, d := range c.Destinations {
		r.Destinations = append(r.Destinations, destination(c, d, everything, newPauseFile(d.Pause, logger)))
	}
	return r
}

// destination returns a destination's configuration from the settings, except for its publisher. It is paused if one of
// two files says so.
func destination(c *config.Config, d config.Destination, everything, own *pauseFile) *relay.Destination {
	to := &relay.Destination{
		Name: d.Name, Topics: d.Topics, Columns: d.Columns, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
		Optional: !d.Required, Topic: d.Topic, WireFormat: d.Profile, CloudEventsSource: d.CloudEventsSource,
		DebeziumTombstones: d.DebeziumTombstones, DedupPrefix: d.NATS.MsgIDPrefix, SettingName: settingNames(c, &d),
		MaxAttempts: int64(d.MaxAttempts), BackoffMin: d.BackoffMin, BackoffMax: d.BackoffMax,
		PublishTimeout: d.PublishTimeout,
		BlockFailed:    d.OnFailed == config.OnFailedBlock, MaxAge: d.MaxAge, Rate: float64(d.Rate),
		MaxInFlight: d.MaxInFlight, MaxInFlightBytes: d.MaxInFlightBytes, Paused: func() bool {
			all, alone := everything.paused(), own.paused()
			return all || alone
		},
	}
	if d.Broker.Protocol == publisher.ProtocolKafka {
		to.TimeColumn = d.Kafka.TimestampColumn()
	}
	if d.PayloadEncoding != config.EncodingNone {
		to.PayloadEncoding = d.PayloadEncoding
	}
	if strings.ContainsAny(d.AMQPExchange, "{}") { // otherwise the publisher has it
		to.Exchange = d.AMQPExchange
	}
	return to
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
