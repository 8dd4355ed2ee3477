package telemetry

import (
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
