package telemetry

import (
	"log/slog"
	"sync"
	"time"
)

// quiet is how long a repeated error is kept out of the log: an exporter whose collector is away reports it with each batch of
// spans.
const quiet = 5 * time.Minute

// An errorLog logs the errors for which OpenTelemetry has no caller.
type errorLog struct {
	logger *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	last time.Time // time of the last line
}

func newErrorLog(logger *slog.Logger) *errorLog {
	return &errorLog{logger: logger, now: time.Now}
}

// Handle logs an error, at most one in five minutes.
func (l *errorLog) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.last.IsZero() && now.Sub(l.last) < quiet {
		return
	}
	l.last = now
	l.logger.Warn("telemetry failed", "error", err)
}
