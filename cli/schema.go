package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/sql"
)

func schemaCommand() *cobra.Command {
	doorbell, delays := false, false
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the DDL of the recommended table",
		Long: `Print the DDL of the table that is recommended to those who start fresh, and of its two indexes, under the name
in OUTBOX_TABLE. It prints only: pipe it to psql, or put it into a migration. It needs no connection.

The doorbell is a trigger that wakes a relay which sleeps, so that a row need not wait for the next poll
(OUTBOX_POLL_INTERVAL). It notifies OUTBOX_LISTEN_CHANNEL, and only while a relay sleeps.

For rows that are due later (available_at), --delays adds the column and two indexes: of due times, and of the rows that are due
at once. With them such rows are relayed on time, however many are scheduled.`,
		Example: `  outbox-relay schema --doorbell | psql "$OUTBOX_DATABASE_URL"`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.LoadOffline()
			if err != nil {
				return err
			}
			table, err := sql.ParseTable(c.Table.Name)
			if err != nil {
				return err
			}
			text := sql.Schema(table)
			if delays {
				text += "\n" + sql.Delays(delaying(c, table))
			}
			if doorbell {
				if c.ListenChannel == "" {
					return usageError(errors.New("OUTBOX_LISTEN_CHANNEL is empty, so no relay would hear the doorbell; set it, or leave out --doorbell"))
				}
				text += "\n" + sql.Doorbell(table, c.ListenChannel)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&delays, "delays", false, "also print what rows need that are due later: the column and the indexes")
	cmd.Flags().BoolVar(&doorbell, "doorbell", false, "also print the trigger that wakes a sleeping relay")
	return cmd
}

// delaying is what rows that are due later need of the table, under its own names.
func delaying(c *config.Config, table sql.Table) sql.Delaying {
	d := sql.Delaying{Table: table, Available: c.Table.Column("available_at"), Order: "seq", Priority: c.Table.Columns["priority"]}
	if order := c.Table.Columns["order"]; order != "" {
		d.Order = order
	}
	if c.Settle != config.SettleDelete || c.Table.Columns["relayed_at"] != "" {
		d.Pending = append(d.Pending, c.Table.Column("relayed_at"))
	}
	d.Pending = append(d.Pending, c.Table.Column("failed_at"))
	return d
}
