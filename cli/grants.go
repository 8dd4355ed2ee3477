package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/sql"
)

func grantsCommand() *cobra.Command {
	role := ""
	cmd := &cobra.Command{
		Use:   "grants --role NAME",
		Short: "Print the least-privilege GRANTs for the configured table",
		Long: `Print the GRANTs that a role of its own needs to relay the table in OUTBOX_TABLE, with the column names in
OUTBOX_COLUMNS, and no more than that. It prints only, and needs no connection.`,
		Example: `  outbox-relay grants --role outbox_relay | psql "$ADMIN_DATABASE_URL"`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if role == "" {
				return usageError(errors.New("grants needs --role NAME, the database role of the relay"))
			}
			c, err := config.LoadOffline()
			if err != nil {
				return err
			}
			table, err := sql.ParseTable(c.Table.Name)
			if err != nil {
				return err
			}
			rights := sql.Rights{Table: table, Role: role, Delete: c.Settle == config.SettleDelete}
			for _, column := range []string{"relayed_at", "attempt", "failed_at", "last_error", "updated_at"} {
				// A table whose acknowledged rows are deleted need not have relayed_at.
				if column != "relayed_at" || !rights.Delete {
					rights.Updates = append(rights.Updates, c.Table.Column(column))
				}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), sql.Grants(rights))
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "the database role of the relay, as it is named (not quoted)")
	return cmd
}
