package cli

import (
	"io"
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
)

// newLogger writes what OUTBOX_LOG_LEVEL and OUTBOX_LOG_FORMAT ask for.
func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
