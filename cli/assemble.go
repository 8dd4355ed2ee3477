package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/telemetry"
	"github.com/outbox-relay/outbox-relay/relay"
)

// flushTimeout bounds how long flushing telemetry may take at the end.
const flushTimeout = time.Second

// assembly is a relay with everything that must be closed after it.
type assembly struct {
	*relay.Relay
	config    relay.Config
	pool      *pgxpool.Pool
	telemetry *telemetry.Telemetry
	closers   []func() error
}

// assemble builds a relay from the configuration. It connects to neither the database nor a broker; an error is a
// configuration error.
func (p *program) assemble(ctx context.Context, c *config.Config, out io.Writer, logger *slog.Logger) (
	*assembly, error,
) {
	limitMemory(max(c.MaxInFlightBytes, c.MaxRowBytes))
	a, err := p.gather(ctx, c, out, logger)
	if err != nil {
		return nil, err
	}
	if a.telemetry, err = telemetry.New(ctx, thisBuild(), logger); err != nil {
		return nil, errors.Join(err, a.close())
	}
	// Telemetry is closed last, since it measures the other parts.
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

// gather builds all parts of a relay, but not the relay itself.
func (p *program) gather(ctx context.Context, c *config.Config, out io.Writer, logger *slog.Logger) (
	a *assembly, err error,
) {
	a = &assembly{config: relayConfig(c, logger)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	var closePool func()
	if a.pool, closePool, err = openPool(ctx, c.Database, &a.config); err != nil {
		return a, err
	}
	a.closers = append(a.closers, func() error { closePool(); return nil })
	for i, d := range a.config.Destinations {
		if d.Publisher, err = p.newPublisher(c, i, out, logger); err != nil {
			return a, err
		}
		a.closers = append(a.closers, d.Publisher.Close)
	}
	return a, nil
}

// close closes what assemble has opened, in reverse order.
func (a *assembly) close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

// Shares of the heap relative to the bound on bytes in flight: the rows themselves, and what a publisher makes of them.
const (
	heapShares = 5 // in halves
	heapLeast  = 64 << 20
)

// limitMemory makes the garbage collector work harder before the heap reaches two and a half times the bytes that may
// be in flight, or of one row: with large rows it would otherwise wait until the heap has doubled. If GOMEMLIMIT is
// set, it is the limit instead.
func limitMemory(inFlight int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(heapLeast, inFlight/2*heapShares))
	}
}
