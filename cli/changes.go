package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// changing completes a command that makes a change to the rows that its flags choose. when describes the time to which
// --since and --until apply.
func (p *program) changing(cmd *cobra.Command, when string, change func() (operate.Change, error),
) *cobra.Command {
	var c changing
	cmd.Long += selectionHelp + changingHelp
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "list what would be changed, and change nothing")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&c.json, "json", false, "print a line of JSON for each row")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		c.change, err = change()
		return err
	}
	return p.selecting(config.NeedDatabase, cmd, when, c.apply)
}

func (p *program) failedRetryCommand() *cobra.Command {
	return p.changing(&cobra.Command{
		Use:   "retry [ID...]",
		Short: "Retry failed rows, with all their attempts",
		Long: `Retry failed rows, with all their attempts: failed_at and last_error are cleared. Unless
OUTBOX_ON_FAILED=block is set, younger rows of their keys have been relayed in the meantime, and the retried rows are
published after them. Ids may also be given as arguments.
`,
	}, "that failed", func() (operate.Change, error) { return operate.Retry(), nil })
}

func (p *program) failedDiscardCommand() *cobra.Command {
	keep, reason := false, ""
	cmd := p.changing(&cobra.Command{
		Use:   "discard [ID...]",
		Short: "Give up failed rows: delete them, or keep them with a reason",
		Long: `Give up failed rows. A row that every other destination has done is deleted. Any other row, and every row
with --keep, stays in the table with failed_at and relayed_at set and the reason appended to its last error, and no
longer counts as failed. No row is deleted while the table has state columns of a destination that is not configured.
Ids may also be given as arguments. With --yes rows have to be chosen; --topic '*' chooses all.
`,
	}, "that failed", func() (operate.Change, error) {
		if keep && strings.TrimSpace(reason) == "" {
			return operate.Change{}, usageError(errors.New("--keep requires --reason TEXT"))
		}
		return operate.Discard(keep, reason), nil
	})
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the rows in the table")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, appended to the last error of rows that stay")
	return cmd
}

func (p *program) replayCommand() *cobra.Command {
	return p.changing(&cobra.Command{
		Use:   "replay [ID...]",
		Short: "Publish relayed rows again",
		Long: `Publish relayed rows again, with the same message ids: relayed_at is cleared. Discarded rows are left
alone. The rows of a key are published in their order among themselves, but after younger rows that were relayed before.
JetStream drops a message that it has stored within the duplicate window of the stream. Ids may also be given as
arguments.
`,
		Example: `  outbox-relay replay --topic order.placed --since 2026-03-01T12:00:00Z --dry-run`,
	}, "that were relayed", func() (operate.Change, error) { return operate.Replay(), nil })
}

func (p *program) pruneCommand() *cobra.Command {
	older, failed := config.Duration(-1), false
	cmd := p.changing(&cobra.Command{
		Use:   "prune --older-than D",
		Short: "Delete rows that every destination has done",
		Long: `Delete rows that every destination has done and whose age exceeds --older-than, in small transactions
with pauses between them. It reads along an index on inserted_at or relayed_at, and the whole table if it has neither.
It deletes nothing while the table has state columns of a destination that is not configured. OUTBOX_PRUNE_AFTER does
the same within run.
`,
		Example: `  outbox-relay prune --older-than 7d --yes
  outbox-relay prune --older-than 30d --failed --topic 'audit.*' --dry-run`,
		Args: cobra.NoArgs,
	}, "inserted", func() (operate.Change, error) {
		if older < 0 {
			return operate.Change{}, usageError(errors.New("prune requires --older-than D, such as 7d"))
		}
		return operate.Prune(time.Duration(older), failed), nil
	})
	cmd.Flags().Var(&older, "older-than", "for how long rows must have been done, such as 7d")
	cmd.Flags().Lookup("older-than").DefValue = ""
	cmd.Flags().BoolVar(&failed, "failed", false, "also delete rows that failed so long ago")
	return cmd
}
