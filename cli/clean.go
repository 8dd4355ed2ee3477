package cli

import (
	"context"
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// newCleaner makes the cleaner that deletes old rows while the relay runs.
func newCleaner(c *config.Config, a *assembly, logger *slog.Logger) (*operate.Cleaner, error) {
	settings, _, err := rowsOnly(c, false)
	return &operate.Cleaner{
		Connect: a.config.Connect, After: c.PruneAfter, Logger: logger,
		Open: func(ctx context.Context) (*operate.Outbox, error) {
			return viewed(ctx, a.pool, settings)
		},
	}, err
}
