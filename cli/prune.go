package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/printable"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// pruneRest is the length of the command's pause after a transaction, as a multiple of the transaction's duration.
const pruneRest = 1

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
			chosen, o, err := flags.open(cmd)
			if err != nil {
				return err
			}
			defer o.close()
			out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
			p := &operate.Prune{
				Outbox: o.Outbox, OlderThan: time.Duration(older), Failed: failed, Selection: chosen,
				Rest: pruneRest,
			}
			if !flags.dryRun && !flags.yes {
				if err := flags.confirmPrune(cmd, p); err != nil {
					return err
				}
			}
			bar := newProgressBar(errs, 0)
			action := "deleted"
			if p.DryRun = flags.dryRun; p.DryRun {
				action = "delete"
			}
			if flags.json {
				p.Row = func(id string) error {
					return writeJSON(out, struct {
						ID     string `json:"id"`
						Action string `json:"action"`
						DryRun bool   `json:"dry_run,omitempty"`
					}{id, action, p.DryRun})
				}
			} else if p.DryRun {
				p.Row = func(id string) error { _, err := fmt.Fprintln(out, printable.Text(id)); return err }
			}
			p.Done = bar.show
			locked := int64(0)
			p.Locked = func(rows int64) { locked = rows }
			deleted, err := p.Run(cmd.Context())
			bar.clear()
			if refused := rightsError(err, "prune"); refused != nil {
				return refused
			}
			if err != nil {
				return selectionError(err)
			}
			stopped := cmd.Context().Err() != nil
			switch {
			case p.DryRun && stopped:
				fmt.Fprintf(errs, "found before it was stopped: %s; nothing was changed\n", rows(deleted))
			case p.DryRun:
				fmt.Fprintf(errs, "would delete %s; nothing was changed\n", rows(deleted))
			default:
				fmt.Fprintf(errs, "deleted: %s\n", rows(deleted))
			}
			if stopped {
				return unfinishedError(errors.New("stopped before all was done; run it again for the rest"))
			}
			return lockedError(locked)
		},
	}
	flags.add(p, cmd, "inserted")
	cmd.Flags().Var(&older, "older-than", "for how long rows must have been done, such as 7d")
	cmd.Flags().Lookup("older-than").DefValue = ""
	cmd.Flags().BoolVar(&failed, "failed", false, "also delete rows that failed so long ago")
	return cmd
}

// confirmPrune counts the rows that would be deleted, and asks for confirmation if there are several.
func (c *changing) confirmPrune(cmd *cobra.Command, p *operate.Prune) error {
	counting := *p
	counting.DryRun = true
	n, err := counting.Run(cmd.Context())
	if err != nil {
		return selectionError(err)
	}
	if cmd.Context().Err() != nil {
		return unfinishedError(errors.New("stopped while the rows were counted; nothing was changed"))
	}
	if n <= 1 {
		return nil
	}
	return c.confirm(cmd.Context(), cmd, "delete", rows(n))
}
