package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/health"
)

// probeTimeout is shorter than what container runtimes usually allow a health check.
const probeTimeout = 3 * time.Second

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit 0 when the relay on this host is live, for container health checks",
		Long: `Ask /livez of the relay that listens on OUTBOX_HTTP_ADDR of this host, and exit 0 when it answers that it is live,
1 when it does not within 3 seconds. Images without a shell or curl can use it as their health check. TLS and passwords
(OUTBOX_HTTP_CONFIG) do not keep it out.`,
		Example: `  HEALTHCHECK CMD ["/outbox-relay", "healthcheck"]`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, path, err := config.LoadHTTP()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), probeTimeout)
			defer cancel()
			return health.Here{Addr: addr, Config: path}.Probe(ctx)
		},
	}
}
