package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/relay"
)

func (p *program) drainCommand() *cobra.Command {
	var timeout config.Duration
	cmd := p.with(config.NeedAll, &cobra.Command{
		Use:   "drain",
		Short: "Relay the rows that are pending now, then exit",
		Long: `Relay the rows that are committed and due now, including retries. Exit 0 when all of them are relayed or
failed, by any replica. Exit 3, with a count by reason, when rows are left at the timeout, or when the database cannot
be reached to count them. drain serves no HTTP. It is meant for Jobs.`,
	}, func(cmd *cobra.Command, c *config.Config) error {
		if !cmd.Flags().Changed("timeout") {
			timeout = config.Duration(c.StopTimeout)
		}
		if timeout <= 0 {
			return usageError(errors.New("--timeout must be more than 0"))
		}
		a, err := p.assemble(cmd.Context(), c, cmd.OutOrStdout(), newLogger(cmd.ErrOrStderr(), c))
		if err != nil {
			return usageError(err)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(timeout))
		defer cancel()
		err = a.Drain(ctx)
		if _, left := errors.AsType[*relay.LeftError](err); left {
			err = unfinishedError(err)
		}
		return errors.Join(err, a.close())
	})
	cmd.Flags().Var(&timeout, "timeout", "how long it may take (default OUTBOX_SHUTDOWN_TIMEOUT)")
	cmd.Flags().Lookup("timeout").DefValue = ""
	return cmd
}
