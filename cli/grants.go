package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/sql"
)

func (p *program) grantsCommand() *cobra.Command {
	role, purpose := "", ""
	cmd := p.with(config.NeedNothing, &cobra.Command{
		Use:   "grants --role NAME",
		Short: "Print the least-privilege GRANTs for the configured table",
		Long: `Print the GRANTs that a dedicated role needs to relay the table in OUTBOX_TABLE, with the column names in
OUTBOX_COLUMNS and the columns of the destinations, and no other privileges. grants only prints, and needs no
connection.

By default the role is for run (and drain, doctor and status); with --for operate also for the commands failed and
replay, and with --for prune for the command prune.`,
		Example: `  outbox-relay grants --role outbox_relay | psql "$ADMIN_DATABASE_URL"`,
	}, func(cmd *cobra.Command, c *config.Config) error {
		if role == "" {
			return usageError(errors.New("grants requires --role NAME, the database role of the relay"))
		}
		rights, err := rightsFor(purpose, c)
		if err != nil {
			return usageError(err)
		}
		plan, _ := planOf(c)
		rights.Table, rights.Role = plan.Table, role
		_, err = io.WriteString(cmd.OutOrStdout(), sql.Grants(rights))
		return err
	})
	cmd.Flags().StringVar(&role, "role", "", "the database role of the relay, as it is named (not quoted)")
	cmd.Flags().StringVar(&purpose, "for", "relay", "what the role is for: relay, operate or prune")
	return cmd
}

// rightsFor returns the rights that a role needs for a purpose.
func rightsFor(purpose string, c *config.Config) (sql.Rights, error) {
	r := sql.Rights{Updates: written(c), Delete: true}
	switch purpose {
	case "relay":
		r.Purpose = "All that the relay needs, and no more: it cannot change payloads, insert, or alter anything."
		r.Delete = c.Delete || c.PruneAfter > 0
	case "operate":
		r.Purpose = "All that the commands status, failed and replay need, and no more: they change the state of " +
			"rows, and delete those that are discarded."
		r.Txid = c.Column("txid")
	case "prune":
		r.Purpose = "All that the command prune needs, and no more: it deletes rows that are done. To lock them it " +
			"must be able to update a column."
		if r.Updates = r.Updates[:1]; c.Delete { // without relayed_at only failed rows are left to be pruned
			r.Updates = []string{c.Column("failed_at")}
		}
	default:
		return r, fmt.Errorf("a role is for relay, operate or prune, not for %q", purpose)
	}
	return r, nil
}

// written returns the columns that the relay writes.
func written(c *config.Config) (columns []string) {
	for _, d := range c.Destinations {
		for _, ours := range route.StateColumns {
			theirs, named := d.Columns[ours]
			if d.Columns == nil { // a table whose accepted rows are deleted need not have relayed_at
				theirs, named = c.Column(ours), ours != "relayed_at" || !c.Delete
			}
			if named && !slices.Contains(columns, theirs) {
				columns = append(columns, theirs)
			}
		}
	}
	return columns
}
