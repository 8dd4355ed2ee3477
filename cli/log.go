package cli

import (
	"io"
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// newLogger makes the logger that OUTBOX_LOG_LEVEL and OUTBOX_LOG_FORMAT describe.
func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: plain}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(printable.JSON(w), options))
}

// longestError bounds an error in the log, in characters: a trigger may put a whole row into its message.
const longestError = 2000

// plain keeps an error on one line, as logs require, also where nothing parses the log, and writes durations as 5m5s,
// which slog's JSON would give in nanoseconds.
func plain(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	if err, ok := a.Value.Any().(error); ok && a.Value.Kind() == slog.KindAny {
		a.Value = slog.StringValue(printable.Cut(errtext.Line(err), longestError))
	}
	return a
}
