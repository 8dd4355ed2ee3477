package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/printable"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

func (p *program) failedCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "failed list|show|retry|discard",
		Short: "List, show, retry or discard rows that have failed",
		Long: `A failed row has failed_at, set after the last attempt, or at once when the broker's answer said that another
attempt would not help. It stays until it is retried or discarded. With OUTBOX_ON_FAILED=block its key waits too.`,
		Example: `  outbox-relay failed list --since 2h
  outbox-relay failed show 0194c6fc-2a8e-7d3b-9c1f-5b7e2f0a4d61
  outbox-relay failed retry --topic 'order.*' --error 'message too large'
  outbox-relay failed discard --id 0194c6fc-2a8e-7d3b-9c1f-5b7e2f0a4d61 --keep --reason 'sent by hand'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("failed requires one of list, show, retry and discard; see outbox-relay failed " +
					"--help")
			}
			return fmt.Errorf("failed has no command %q; it has list, show, retry and discard", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(p.failedListCommand(), p.failedShowCommand(), p.failedRetryCommand(), p.failedDiscardCommand())
	return cmd
}

// rowLimit is how many rows are listed by default.
const rowLimit = 1000

// looking holds the flags of commands that list rows.
type looking struct {
	selection
	limit int
	json  bool
}

func (l *looking) add(p *program, cmd *cobra.Command) {
	l.selection.add(p, cmd, "that failed")
	cmd.Flags().IntVar(&l.limit, "limit", rowLimit, "how many rows at most, 0 for all")
	cmd.Flags().BoolVar(&l.json, "json", false, "print a line of JSON for each row, for machines")
}

// each prints the rows as JSON if that was asked for, and calls a function with each otherwise. It returns how many
// there are.
func (l *looking) each(cmd *cobra.Command, do func(operate.FailedRow) error, content bool) (
	n int, err error,
) {
	if l.limit < 0 {
		return 0, usageError(errors.New("--limit must not be negative"))
	}
	chosen, o, err := l.open(cmd)
	if err != nil {
		return 0, err
	}
	defer o.close()
	most := l.limit
	if most > 0 {
		most++ // shows whether there are more rows
	}
	err = o.Failed(cmd.Context(), chosen, most, content, func(row operate.FailedRow) error {
		if n++; l.limit > 0 && n > l.limit {
			return operate.ErrEnough
		}
		if l.json {
			return writeJSON(cmd.OutOrStdout(), row)
		}
		return do(row)
	})
	if err != nil {
		return n, selectionError(err)
	}
	noteAbsent(cmd.ErrOrStderr(), chosen.IDs, int64(n))
	if l.limit > 0 && n > l.limit {
		fmt.Fprintf(cmd.ErrOrStderr(), "there are more rows than %d: choose fewer, or give --limit 0 for all\n",
			l.limit)
	}
	return n, nil
}

func (p *program) failedListCommand() *cobra.Command {
	var flags looking
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List failed rows, the latest failures first",
		Long:    "List failed rows, the latest failures first.\n" + selectionHelp,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := columns(cmd.OutOrStdout())
			if !flags.json {
				fmt.Fprintln(out, "ID\tDESTINATION\tTOPIC\tATTEMPT\tFAILED AT\tLAST ERROR")
			}
			found, err := flags.each(cmd, func(row operate.FailedRow) error {
				_, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", printable.Text(row.ID), row.Destination,
					printable.Cut(row.Topic, topicWidth), optional(row.Attempt),
					row.FailedAt.UTC().Format(time.RFC3339), short(row.LastError))
				return err
			}, false)
			if err != nil && found == 0 {
				return err // without a heading, which alone would mean that there are no rows
			}
			return errors.Join(err, out.Flush())
		},
	}
	flags.add(p, cmd)
	return cmd
}

func (p *program) failedShowCommand() *cobra.Command {
	var flags looking
	cmd := &cobra.Command{
		Use:   "show [ID...]",
		Short: "Show failed rows in full, with headers and payload",
		Long: "Show failed rows in full, with their keys, headers and payloads. Ids may also be given as arguments.\n" +
			selectionHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.IDs = append(flags.IDs, args...)
			found, err := flags.each(cmd, func(row operate.FailedRow) error {
				return showFailed(cmd.OutOrStdout(), row)
			}, true)
			if err == nil && found == 0 && len(flags.IDs) > 0 {
				return errors.New("no failed row has such an id; outbox-relay status --id shows where a row is")
			}
			return err
		},
	}
	flags.add(p, cmd)
	return cmd
}

func showFailed(w io.Writer, row operate.FailedRow) error {
	out := columns(w)
	line := func(name, value string) {
		for part := range strings.SplitSeq(strings.ReplaceAll(value, "\t", " "), "\n") {
			fmt.Fprintf(out, "%s\t%s\n", name, printable.Text(part))
			name = ""
		}
	}
	line("id", row.ID)
	line("destination", row.Destination)
	line("topic", row.Topic)
	line("key", optional(row.Key))
	line("attempt", optional(row.Attempt))
	if row.InsertedAt != nil {
		line("inserted at", row.InsertedAt.UTC().Format(time.RFC3339Nano))
	}
	line("failed at", row.FailedAt.UTC().Format(time.RFC3339Nano))
	line("last error", optional(row.LastError))
	line("headers", optional(row.Headers))
	line("payload", optional(row.Payload))
	fmt.Fprintln(out)
	return out.Flush()
}

func (p *program) failedRetryCommand() *cobra.Command {
	var flags changing
	cmd := &cobra.Command{
		Use:        "retry [ID...]",
		SuggestFor: []string{"requeue", "redrive"},
		Short:      "Retry failed rows, with all their attempts",
		Long: `Retry failed rows, with all their attempts: failed_at and last_error are cleared. Unless OUTBOX_ON_FAILED=block
is set, younger rows of their keys have been relayed in the meantime, and the retried rows are published after them. Ids
may also be given as arguments.
` + selectionHelp + changingHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.apply(cmd, args, operate.Retry())
		},
	}
	flags.add(p, cmd, "that failed")
	return cmd
}

func (p *program) failedDiscardCommand() *cobra.Command {
	var flags changing
	keep, reason := false, ""
	cmd := &cobra.Command{
		Use:        "discard [ID...]",
		Aliases:    []string{"rm"},
		SuggestFor: []string{"delete", "skip", "drop"},
		Short:      "Give up failed rows: delete them, or keep them with a reason",
		Long: `Give up failed rows. A row that every other destination has done is deleted. Any other row, and every row with
--keep, stays in the table with failed_at and relayed_at set and the reason appended to its last error, and no longer
counts as failed. No row is deleted while the table has state columns of a destination that is not configured.
Ids may also be given as arguments. With --yes rows have to be chosen; --topic '*' chooses all.
` + selectionHelp + changingHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep && strings.TrimSpace(reason) == "" {
				return usageError(errors.New("--keep requires --reason TEXT, for whoever finds the row later"))
			}
			return flags.apply(cmd, args, operate.Discard(keep, reason))
		},
	}
	flags.add(p, cmd, "that failed")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the rows in the table")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, appended to the last error of rows that stay")
	return cmd
}

// optional formats a value that may be missing.
func optional[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

// Lists cut longer texts, so that one of them does not widen each line.
const (
	topicWidth = 60
	errorWidth = 100
)

// short returns a text as one line of a list.
func short(text *string) string {
	if text == nil {
		return "-"
	}
	return printable.Cut(strings.Join(strings.Fields(*text), " "), errorWidth)
}
