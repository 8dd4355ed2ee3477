package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/health"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

func (p *program) runCommand() *cobra.Command {
	return p.with(config.NeedAll, &cobra.Command{
		Use:   "run",
		Short: "Relay until SIGTERM or SIGINT; a second signal stops at once",
		Long: `Relay rows until SIGTERM or SIGINT, then stop cleanly: nothing new is started, messages on the wire are
acknowledged and settled, and another replica takes over. A second signal stops at once. Exit 3 when rows had to be
left unsettled; they will be published again.

The database and the broker may be unavailable at start: /readyz, the log and the metrics report it, and the relay
begins when they become available.`,
	}, func(cmd *cobra.Command, c *config.Config) error {
		logger := newLogger(cmd.ErrOrStderr(), c)
		if err := health.CheckConfig(c.HTTPConfig); err != nil {
			return usageError(fmt.Errorf("configuration: OUTBOX_HTTP_CONFIG: %w", err))
		}
		a, err := p.assemble(cmd.Context(), c, cmd.OutOrStdout(), logger)
		if err != nil {
			return usageError(err)
		}
		return errors.Join(run(cmd.Context(), c, a, logger), a.close())
	})
}

// run relays and serves HTTP until ctx ends or HTTP cannot be served.
func run(ctx context.Context, c *config.Config, a *assembly, logger *slog.Logger) error {
	build := thisBuild()
	logger.Info("starting", "version", build.Version, "commit", build.Commit)
	cleaner := &operate.Cleaner{After: c.PruneAfter, Logger: logger}
	cleaner.Open = func(ctx context.Context) (*operate.Outbox, error) { return openOutbox(ctx, c) }
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	// Health and metrics are served until the relay has stopped.
	serving, close := context.WithCancel(context.WithoutCancel(ctx))
	var failure error
	var group sync.WaitGroup
	group.Go(func() { failure = serve(serving, servers(c, a, logger), stop) })
	if c.PruneAfter > 0 {
		group.Go(func() { cleaner.Run(relaying) })
	}
	left := a.Run(relaying)
	close()
	group.Wait()
	if failure != nil {
		return failure
	}
	if left != nil {
		return unfinishedError(left)
	}
	logger.Info("stopped")
	return nil
}
