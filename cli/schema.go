package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

func (p *program) schemaCommand() *cobra.Command {
	doorbell, delays, partitioned, destination := false, false, false, ""
	cmd := p.with(config.NeedNothing, &cobra.Command{
		Use:   "schema",
		Short: "Print the DDL of the recommended table",
		Long: `Print the DDL of the recommended table and its indexes, under the names in OUTBOX_TABLE and
OUTBOX_COLUMNS, for applications that do not have an outbox yet. schema only prints: pipe its output to psql, or put it
into a migration. It needs no connection.

The doorbell is a trigger that wakes a sleeping relay, so that a row does not wait for the next poll
(OUTBOX_POLL_INTERVAL). It notifies OUTBOX_LISTEN_CHANNEL, and only while a relay sleeps.

With --destination, schema instead prints what an existing table of any shape needs for a destination with columns of
its own (OUTBOX_DESTINATION_<NAME>_COLUMNS): the columns, comments that name the destination, and indexes of its rows
alone. Existing rows count as done for the destination.

For rows that are due later (available_at), --delays adds the column and two indexes: one of due times, and one of the
rows that are due at once. They let the relay publish such rows on time, however many are scheduled.

--partitioned instead prints the table with a partition for each day, a function that creates partitions, and one that
drops partitions in which every row is done. Print it again when a destination gets columns of its own.`,
		Example: `  outbox-relay schema --doorbell | psql "$OUTBOX_DATABASE_URL"`,
	}, func(cmd *cobra.Command, c *config.Config) error {
		settings, _ := rowsOnly(c)
		table := settings.Table
		text, view := sql.SchemaNamed(table, c.Columns), outbox.View{}
		if partitioned {
			var seen operate.Outbox
			var own []string
			for _, v := range settings.Views {
				seen.Views = append(seen.Views, settings.Assumed(v))
				if v.Columns != nil {
					own = append(own, v.Columns["relayed_at"])
				}
			}
			text = sql.Partitioned(table, c.Columns, seen.Undone(), own...)
		}
		if destination != "" {
			var err error
			if view, err = owner(&settings, destination); err != nil {
				return usageError(err)
			}
			text = settings.OwnSchema(view)
		}
		if delays {
			text += "\n" + settings.DelaySchema(view)
		}
		if doorbell {
			if c.ListenChannel == "" {
				return usageError(errors.New("OUTBOX_LISTEN_CHANNEL is empty, so no relay would hear the " +
					"doorbell; set it, or leave out --doorbell"))
			}
			text += "\n" + sql.Doorbell(table, c.ListenChannel)
		}
		_, err := io.WriteString(cmd.OutOrStdout(), text)
		return err
	})
	cmd.Flags().StringVar(&destination, "destination", "", "print, instead of the table, what the destination of this "+
		"name needs for columns of its own")
	cmd.Flags().BoolVar(&delays, "delays", false, "also print what rows need that are due later: the column and the "+
		"indexes")
	cmd.Flags().BoolVar(&partitioned, "partitioned", false, "print the table in a partition for each day, with "+
		"functions that make and drop partitions")
	cmd.MarkFlagsMutuallyExclusive("partitioned", "destination")
	cmd.Flags().BoolVar(&doorbell, "doorbell", false, "also print the trigger that wakes a sleeping relay")
	return cmd
}

// owner returns the view of a destination with columns of its own.
func owner(settings *outbox.Config, name string) (outbox.View, error) {
	settings.Shards, settings.Delete, settings.Key = 0, false, rowkey.Source{}
	var names []string
	for _, v := range settings.Views {
		switch {
		case v.Name == name && v.Columns == nil:
			return outbox.View{}, fmt.Errorf("destination %s keeps its state in the columns of the table; set "+
				"OUTBOX_DESTINATION_…_COLUMNS to give it columns of its own", name)
		case v.Name == name:
			return v, nil
		}
		names = append(names, v.Name)
	}
	return outbox.View{}, fmt.Errorf("no destination is called %s; those of OUTBOX_DESTINATIONS are %s", name,
		strings.Join(names, ", "))
}
