package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

func (p *program) pruneCommand() *cobra.Command {
	var flags changing
	var older config.Duration
	failed := false
	cmd := &cobra.Command{
		Use:        "prune --older-than D",
		SuggestFor: []string{"purge", "cleanup", "clean", "delete", "vacuum"},
		Short:      "Delete rows that every destination has done",
		Long: `Delete rows that every destination has done and whose age exceeds --older-than, in small transactions with
pauses between them. OUTBOX_PRUNE_AFTER does the same within run. Whole partitions are dropped by the function that
outbox-relay schema --partitioned prints.

prune reads along an index on inserted_at or relayed_at. If the table is large and has neither, prune names the
missing index and deletes nothing. It also deletes nothing while the table has state columns of a destination that is
not configured.
` + selectionHelp + changingHelp,
		Example: `  outbox-relay prune --older-than 7d --yes
  outbox-relay prune --older-than 30d --failed --topic 'audit.*' --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("older-than") {
				return usageError(errors.New("prune requires --older-than D, the time since rows were done, such as " +
					"7d"))
			}
			if older < 0 {
				return usageError(errors.New("--older-than must not be negative"))
			}
			return flags.apply(cmd, nil, operate.Prune(time.Duration(older), failed))
		},
	}
	flags.add(p, cmd, "inserted")
	cmd.Flags().Var(&older, "older-than", "for how long rows must have been done, such as 7d")
	cmd.Flags().Lookup("older-than").DefValue = ""
	cmd.Flags().BoolVar(&failed, "failed", false, "also delete rows that failed so long ago")
	return cmd
}
