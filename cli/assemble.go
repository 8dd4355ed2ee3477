package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
	"github.com/outbox-relay/outbox-relay/internal/telemetry"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay"
)

// flushTimeout bounds what telemetry may take at the end.
const flushTimeout = time.Second

// assembly is a relay with everything that has to be closed after it.
type assembly struct {
	*relay.Relay
	config    relay.Config
	pool      *pgxpool.Pool
	telemetry *telemetry.Telemetry
	closers   []func() error
}

// assemble makes a relay from the configuration. It reaches neither the database nor a broker; an error is
// one of configuration.
func (p *program) assemble(ctx context.Context, c *config.Config, out io.Writer, logger *slog.Logger) (*assembly, error) {
	limitMemory(max(c.MaxInFlightBytes, c.MaxRowBytes))
	a, err := p.gather(ctx, c, out, logger, nil)
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
	if c.TraceRows && !a.telemetry.Traces() {
		a.config.TraceRows = false
		logger.Warn("OUTBOX_TRACE_ROWS has no effect, since no traces are exported: set OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	if a.Relay, err = relay.New(a.pool, a.config); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// gather makes all that a relay is made of, but not the relay. certificates, which may be nil, takes note of
// what the servers show.
func (p *program) gather(ctx context.Context, c *config.Config, out io.Writer, logger *slog.Logger,
	certificates *doctor.Certificates) (a *assembly, err error) {
	a = &assembly{config: relayConfig(c, logger)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	var closePool func()
	if a.pool, closePool, err = openPool(ctx, c.Database, &a.config, certificates); err != nil {
		return a, err
	}
	a.closers = append(a.closers, func() error { closePool(); return nil })
	for i, d := range a.config.Destinations {
		d.Reopen = func() (publisher.Publisher, error) {
			return p.newPublisher(c.Destinations[i], out, logger, certificates)
		}
		if d.Publisher, err = d.Reopen(); err != nil {
			return a, err
		}
		a.closers = append(a.closers, d.Close)
	}
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
