package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/sql"
)

func schemaCommand() *cobra.Command {
	doorbell := false
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the DDL of the recommended table",
		Long: `Print the DDL of the table that is recommended to those who start fresh, and of its two indexes, under the name
in OUTBOX_TABLE. It prints only: pipe it to psql, or put it into a migration. It needs no connection.

The doorbell is a trigger that wakes a relay which sleeps, so that a row need not wait for the next poll
(OUTBOX_POLL_INTERVAL). It notifies OUTBOX_LISTEN_CHANNEL, and only while a relay sleeps.`,
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
	cmd.Flags().BoolVar(&doorbell, "doorbell", false, "also print the trigger that wakes a sleeping relay")
	return cmd
}
