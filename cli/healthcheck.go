package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/health"
)

// probeTimeout is shorter than what container runtimes usually allow a health check.
const probeTimeout = 3 * time.Second

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit 0 when the relay on this host is live, for container health checks",
		Long: `Ask /livez of the relay that listens on OUTBOX_HTTP_ADDR of this host, and exit 0 when it answers that it is live,
1 when it does not within 3 seconds. Images without a shell or curl can use it as their health check.`,
		Example: `  HEALTHCHECK CMD ["/outbox-relay", "healthcheck"]`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, err := config.LoadHTTPAddr()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), probeTimeout)
			defer cancel()
			return health.Probe(ctx, addr)
		},
	}
}
