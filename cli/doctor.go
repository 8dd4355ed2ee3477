package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

func (p *program) doctorCommand() *cobra.Command {
	asJSON := false
	cmd := p.with(config.NeedAll, &cobra.Command{
		Use:   "doctor",
		Short: "Check database, table, indexes, privileges, pooler and brokers; each finding with its remedy",
		Long: `Examine everything that relaying depends on: the database, the table with its columns, privileges and
indexes, the other replicas, and each broker with the topics of the pending rows. Each finding comes with its remedy.
doctor changes nothing and may run next to a relay at any time. It ends within about half a minute, even if a server is
unavailable. Exit status: 1 when there is an error, 0 when there are only warnings.`,
		Example: `  outbox-relay doctor
  outbox-relay doctor --json | jq -r '.findings[] | select(.severity != "ok") | "\(.check): \(.found)"'
  kubectl exec deploy/shop -c outbox-relay -- /outbox-relay doctor`,
	}, func(cmd *cobra.Command, c *config.Config) error {
		// The findings cover what the clients would log.
		a, err := p.gather(cmd.Context(), c, cmd.OutOrStdout(), slog.New(slog.DiscardHandler))
		if err != nil {
			return usageError(err)
		}
		defer func() { _ = a.close() }() // problems of the connections have already been reported
		plan, routes := planOf(c)
		plan.Channel = c.ListenChannel
		d := &doctor.Doctor{Pool: a.pool, Connect: a.config.Connect, Outbox: plan, Routes: routes}
		for _, to := range a.config.Destinations {
			d.Publishers = append(d.Publishers, to.Publisher)
		}
		report := d.Examine(cmd.Context())
		write := report.WriteText
		if asJSON {
			write = report.WriteJSON
		}
		if err := write(cmd.OutOrStdout()); err != nil {
			return err
		}
		if count := report.Count(finding.Error); count > 0 {
			return fmt.Errorf("doctor found errors: %d", count)
		}
		return nil
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, for machines")
	return cmd
}
