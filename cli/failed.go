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
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageError(errors.New("failed requires one of list, show, retry and discard; see outbox-relay failed --help"))
		},
	}
	cmd.AddCommand(p.failedListCommand(), p.failedShowCommand(), p.failedRetryCommand(), p.failedDiscardCommand())
	return cmd
}

// rowLimit is how many rows are listed by default.
const rowLimit = 1000

// listing makes a command that lists rows: as JSON if that is requested, otherwise with do, and then with end. Both
// receive a writer that aligns columns.
func (p *program) listing(cmd *cobra.Command, content bool, do func(io.Writer, operate.FailedRow),
	end func(found int, ids []string) error,
) *cobra.Command {
	var chosen selection
	limit, asJSON := 0, false
	cmd.Long += selectionHelp
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usageError(errors.New("--limit must not be negative"))
		}
		selected, o, err := chosen.open(cmd, args...)
		if err != nil {
			return err
		}
		defer o.close()
		most := limit
		if most > 0 {
			most++ // shows whether there are more rows
		}
		found, out := 0, columns(cmd.OutOrStdout())
		err = o.Failed(cmd.Context(), selected, most, content, func(row operate.FailedRow) error {
			if found++; limit > 0 && found > limit {
				return operate.ErrEnough
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), row)
			}
			do(out, row)
			return nil
		})
		if err := errors.Join(selectionError(err), out.Flush()); err != nil {
			return err
		}
		noteAbsent(cmd.ErrOrStderr(), selected.IDs, int64(found))
		if limit > 0 && found > limit {
			fmt.Fprintf(cmd.ErrOrStderr(), "there are more rows than %d: choose fewer, or give --limit 0 for all\n", limit)
		}
		return end(found, selected.IDs)
	}
	chosen.add(p, cmd, "that failed")
	cmd.Flags().IntVar(&limit, "limit", rowLimit, "how many rows at most, 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each row, for machines")
	return cmd
}

func (p *program) failedListCommand() *cobra.Command {
	heading := "ID\tDESTINATION\tTOPIC\tATTEMPT\tFAILED AT\tLAST ERROR\n"
	return p.listing(&cobra.Command{
		Use:   "list",
		Short: "List failed rows, the latest failures first",
		Long:  "List failed rows, the latest failures first.\n",
		Args:  cobra.NoArgs,
	}, false, func(out io.Writer, row operate.FailedRow) {
		fmt.Fprintf(out, "%s%s\t%s\t%s\t%s\t%s\t%s\n", heading, printable.Text(row.ID), row.Destination,
			printable.Cut(row.Topic, topicWidth), optional(row.Attempt), row.FailedAt.UTC().Format(time.RFC3339),
			short(row.LastError))
		heading = ""
	}, func(int, []string) error { return nil })
}

func (p *program) failedShowCommand() *cobra.Command {
	return p.listing(&cobra.Command{
		Use:   "show [ID...]",
		Short: "Show failed rows in full, with headers and payload",
		Long:  "Show failed rows in full, with their keys, headers and payloads. Ids may also be given as arguments.\n",
	}, true, showFailed, func(found int, ids []string) error {
		if found == 0 && len(ids) > 0 {
			return errors.New("no failed row has such an id; outbox-relay status --id shows where a row is")
		}
		return nil
	})
}

func showFailed(out io.Writer, row operate.FailedRow) {
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
