package cli

import (
	"io"
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/errtext"
)

// newLogger writes what OUTBOX_LOG_LEVEL and OUTBOX_LOG_FORMAT ask for.
func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: oneLine}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// oneLine lets an error be one line, as a log's are, also where nobody parses it.
func oneLine(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok && a.Value.Kind() == slog.KindAny {
		a.Value = slog.StringValue(errtext.Line(err))
	}
	return a
}
