package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
)

// quiet is how long a repeated error is kept out of the log: an exporter whose collector is away reports it with each
// batch of spans.
const quiet = 5 * time.Minute

// errAttributes replaces errors that quote the variable.
var errAttributes = errors.New("OTEL_RESOURCE_ATTRIBUTES cannot be read")

// logErrors returns a handler of the errors for which OpenTelemetry has no caller. It logs at most one in five minutes.
func logErrors(logger *slog.Logger) otel.ErrorHandlerFunc {
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if !last.IsZero() && now.Sub(last) < quiet {
			return
		}
		last = now
		if _, escape := errors.AsType[url.EscapeError](err); escape || errors.Is(err, resource.ErrPartialResource) {
			err = errAttributes
		}
		logger.Warn("telemetry failed", "error", err)
	}
}

// A messageLog logs the errors that OpenTelemetry's own logger reports, without their attributes: the SDK adds headers
// and URLs to them as they were given, with their secrets.
type messageLog struct{ logger *slog.Logger }

func (messageLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l messageLog) Handle(_ context.Context, r slog.Record) error {
	l.logger.Warn("OpenTelemetry reports a problem", "problem", r.Message)
	return nil
}

func (l messageLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l messageLog) WithGroup(string) slog.Handler { return l }
