package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/internal/telemetry"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay"
	"github.com/outbox-relay/outbox-relay/sql"
)

// flushTimeout bounds what telemetry may take at the end.
const flushTimeout = time.Second

// assembly is a relay with everything that has to be closed after it.
type assembly struct {
	*relay.Relay
	config    relay.Config
	telemetry *telemetry.Telemetry
	closers   []func() error
}

// assemble makes a relay from the configuration. It reaches neither the database nor a broker; an error is
// one of configuration.
func assemble(ctx context.Context, c *config.Config, out io.Writer, logger *slog.Logger) (*assembly, error) {
	limitMemory(max(c.MaxInFlightBytes, c.MaxRowBytes))
	a, err := gather(ctx, c, out, logger, nil)
	if err != nil {
		return nil, err
	}
	if a.telemetry, err = telemetry.New(ctx, thisBuild(), logger); err != nil {
		return nil, errors.Join(err, a.close())
	}
	// What it measures of the others outlives them.
	a.closers = append([]func() error{func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		return a.telemetry.Shutdown(ctx)
	}}, a.closers...)
	a.config.Meter, a.config.Tracer = a.telemetry.Meter(), a.telemetry.Tracer()
	if c.TraceRows {
		a.traceRows(logger)
	}
	if a.Relay, err = relay.New(a.config); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// traceRows lets each row have a span.
func (a *assembly) traceRows(logger *slog.Logger) {
	if !a.telemetry.Traces() {
		logger.Warn("OUTBOX_TRACE_ROWS has no effect, since no traces are exported: set OTEL_EXPORTER_OTLP_ENDPOINT")
		return
	}
	for _, d := range a.config.Destinations {
		d.RowSpans = a.config.Tracer
	}
}

// gather makes all that a relay is made of, but not the relay. certificates, which may be nil, takes note of
// what the servers show.
func gather(ctx context.Context, c *config.Config, out io.Writer, logger *slog.Logger, certificates *doctor.Certificates) (a *assembly, err error) {
	a = &assembly{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	witness, err := newWitness(c.Database)
	if err != nil {
		return a, err
	}
	links := &outbox.Links{Patience: min(c.OwnerTTL/2, mostPatience), Logger: logger}
	others := workOther
	if c.PruneAfter > 0 {
		others++
	}
	pool, err := newPool(ctx, c.Database, others, len(c.Destinations), certificates, witness, links)
	if err != nil {
		return a, err
	}
	a.closers = append(a.closers, func() error { links.ClosePool(pool); return nil })
	connect, err := newConnect(c.Database, certificates, 2*links.Patience)
	if err != nil {
		return a, err
	}
	table, err := sql.ParseTable(c.Table.Name)
	if err != nil {
		return a, fmt.Errorf("OUTBOX_TABLE: %w", err)
	}
	settings := relay.Config{
		Pool: pool, Links: links, Connect: connect, Witness: witness,
		Outbox: outbox.Config{Table: table, Columns: c.Table.Columns, Preferred: preferred(c), Headers: c.Table.Headers(),
			Key: c.Table.Key, Delete: c.Settle == config.SettleDelete, MaxRow: c.MaxRowBytes},
		Limits:       relay.Limits{Batch: c.BatchSize, Rows: c.MaxInFlight, Bytes: c.MaxInFlightBytes},
		PollInterval: c.PollInterval, IdlePause: c.IdlePause, ListenChannel: c.ListenChannel, OwnerTTL: c.OwnerTTL, Shards: c.Shards,
		StopTimeout: c.ShutdownTimeout, Logger: logger,
	}
	everything := newPauseFile(c.Pause, logger)
	for _, configured := range c.Destinations {
		d := newDestination(configured)
		d.MaxAttempts, d.BackoffMin, d.BackoffMax = int64(configured.MaxAttempts), configured.BackoffMin, configured.BackoffMax
		d.PublishTimeout, d.BlockFailed, d.DedupPrefix = configured.PublishTimeout, configured.OnFailed == config.OnFailedBlock, configured.NATS.MsgIDPrefix
		d.Rate, d.Rows, d.Bytes = configured.Rate.PerSecond(), configured.MaxInFlight, configured.MaxInFlightBytes
		own := newPauseFile(configured.Pause, logger)
		d.Paused = func() bool {
			all, alone := everything.paused(), own.paused()
			return all || alone
		}
		if d.Topic, settings.Outbox.Extra, err = relay.ParseTemplate(configured.Topic, settings.Outbox.Extra); err != nil {
			return a, err
		}
		if column := configured.Kafka.TimestampColumn(); column != "" && configured.Broker.Protocol == publisher.ProtocolKafka {
			d.Time, settings.Outbox.Extra = relay.TimeFrom(column, settings.Outbox.Extra)
		}
		if configured.PayloadEncoding != config.EncodingNone {
			d.Encoding, settings.Outbox.Encoded = relay.Encoding(configured.PayloadEncoding), true
		}
		if d.Profile, err = newProfile(configured); err != nil {
			return a, err
		}
		if strings.ContainsAny(configured.AMQPExchange, "{}") {
			exchange, extra, err := relay.ParseTemplate(configured.AMQPExchange, settings.Outbox.Extra)
			if err != nil {
				return a, err
			}
			d.Exchange, settings.Outbox.Extra = &exchange, extra
		}
		d.Reopen = func() (publisher.Publisher, error) { return newPublisher(configured, out, logger, certificates) }
		if d.Publisher, err = d.Reopen(); err != nil {
			return a, err
		}
		a.closers = append(a.closers, d.Close)
		settings.Destinations = append(settings.Destinations, d)
	}
	settings.Outbox.Views = relay.Views(settings.Destinations)
	a.config = settings
	return a, nil
}

// close ends what assemble began, in the opposite order.
func (a *assembly) close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

// preferred returns the columns that are taken for ours where the table has them and OUTBOX_COLUMNS does not say otherwise.
func preferred(c *config.Config) map[string]string {
	for _, d := range c.Destinations {
		if columns := profile.Columns(d.Profile); columns != nil {
			return columns
		}
	}
	return nil
}
