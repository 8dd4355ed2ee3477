package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/health"
)

// probeTimeout is shorter than the time that container runtimes usually allow for a health check.
const probeTimeout = 3 * time.Second

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit 0 when the relay on this host is live, for container health checks",
		Long: `Request /livez from the relay that listens on OUTBOX_HTTP_ADDR of this host. Exit 0 when the relay
reports that it is live, 1 when it does not within 3 seconds. For health checks of images without a shell or curl. TLS
and passwords (OUTBOX_HTTP_CONFIG) do not affect it.`,
		Example: `  HEALTHCHECK CMD ["/outbox-relay", "healthcheck"]`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, path, err := config.LoadHTTP()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), probeTimeout)
			defer cancel()
			if _, err := (health.Here{Addr: addr, Config: path}).Get(ctx, "/livez"); err != nil {
				err = fmt.Errorf("health check: %s", errtext.Line(err)) // one line for all addresses that were tried
				// Also when it is stopped: containers know no other status.
				return &exitError{Status: exitFailed, Err: err}
			}
			return nil
		},
	}
}
