package cli

import (
	"encoding/json"
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
	var flags selection
	var older config.Duration
	failed, dryRun, yes, asJSON := false, false, false, false
	cmd := &cobra.Command{
		Use:        "prune --older-than D",
		SuggestFor: []string{"purge", "cleanup", "clean", "delete", "vacuum"},
		Short:      "Delete rows that every destination has done",
		Long: `Delete rows that every destination has done and whose age exceeds --older-than, in small transactions with pauses
between them. If the table is partitioned by the time of insert, whole partitions are dropped once every row in them
is done, by the function that outbox-relay schema --partitioned prints. OUTBOX_PRUNE_AFTER does the same within run.

prune reads along an index on inserted_at or relayed_at. If the table is large and has neither, prune names the
missing index and deletes nothing. It also deletes nothing while the table has state columns of a destination that is
not configured.
` + selectionHelp + changingHelp,
		Example: `  outbox-relay prune --older-than 7d --yes
  outbox-relay prune --older-than 30d --failed --topic 'audit.*' --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("older-than") {
				return usageError(errors.New("prune requires --older-than D, the time since rows were done, such as 7d"))
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
				Rest: func() float64 { return pruneRest },
			}
			if !dryRun && !yes {
				if yes, err = confirmPrune(cmd, p); err != nil || !yes {
					return err
				}
			}
			bar := newCounter(errs)
			encoder, action := json.NewEncoder(printable.JSON(out)), "deleted"
			if p.DryRun = dryRun; dryRun {
				action = "delete"
			}
			if asJSON {
				p.Row = func(id string) error {
					return encoder.Encode(struct {
						ID     string `json:"id"`
						Action string `json:"action"`
						DryRun bool   `json:"dry_run,omitempty"`
					}{id, action, dryRun})
				}
			} else if dryRun {
				p.Row = func(id string) error { _, err := fmt.Fprintln(out, printable.Text(id)); return err }
			}
			p.Done = bar.show
			locked := int64(0)
			p.Locked = func(rows int64) { locked = rows }
			verb := map[bool]string{false: "dropped", true: "would drop"}[dryRun]
			p.Dropped = func(partition string) { bar.clear(); fmt.Fprintf(errs, "%s partition %s\n", verb, partition) }
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
			case dryRun && stopped:
				fmt.Fprintf(errs, "found before it was stopped: %s; nothing was changed\n", rows(deleted))
			case dryRun:
				fmt.Fprintf(errs, "would delete %s; nothing was changed\n", rows(deleted))
			default:
				fmt.Fprintf(errs, "deleted: %s\n", rows(deleted))
			}
			switch {
			case stopped:
				return unfinishedError(errors.New("stopped before all was done; run it again for the rest"))
			case locked > 0:
				return unfinishedError(fmt.Errorf("another session keeps %s locked; run the command again for them", rows(locked)))
			}
			return nil
		},
	}
	flags.add(p, cmd, "inserted")
	cmd.Flags().Var(&older, "older-than", "for how long rows must have been done, such as 7d")
	cmd.Flags().Lookup("older-than").DefValue = ""
	cmd.Flags().BoolVar(&failed, "failed", false, "also delete rows that failed so long ago")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "list what would be deleted, and delete nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each row, for machines")
	return cmd
}

// confirmPrune counts the rows that would be deleted, and asks for confirmation if there are several.
func confirmPrune(cmd *cobra.Command, p *operate.Prune) (yes bool, err error) {
	counting := *p
	partitions := 0
	counting.DryRun, counting.Dropped = true, func(string) { partitions++ }
	n, err := counting.Run(cmd.Context())
	if err != nil {
		return false, selectionError(err)
	}
	if cmd.Context().Err() != nil {
		return false, unfinishedError(errors.New("stopped while the rows were counted; nothing was changed"))
	}
	what := rows(n)
	if partitions > 0 {
		what += " in whole partitions, of which there are " + fmt.Sprint(partitions) + ", and others"
	}
	switch {
	case n <= 1 && partitions == 0:
		return true, nil
	case !isTerminal(cmd.InOrStdin()):
		return false, usageError(fmt.Errorf(
			"this would delete %s, but there is no terminal for confirmation; use --yes, or --dry-run to list them",
			what))
	case !ask(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), "delete "+what+"?"):
		return false, errRefused
	}
	return true, nil
}
