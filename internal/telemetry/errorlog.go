package telemetry

import (
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
)

// quiet is how long a repeated error is kept out of the log: an exporter whose collector is away reports it with each
// batch of spans.
const quiet = 5 * time.Minute

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
		logger.Warn("telemetry failed", "error", err)
	}
}
