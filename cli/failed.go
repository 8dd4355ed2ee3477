package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/printable"
)

func (p *program) failedCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "failed list|show|retry|discard",
		Short: "List, show, retry or discard rows that have failed",
		Long: `A failed row has failed_at, set after the last attempt, or at once when the broker's answer said that
another attempt would not help. It stays until it is retried or discarded.`,
		Example: `  outbox-relay failed list --since 2h
  outbox-relay failed show 0194c6fc-2a8e-7d3b-9c1f-5b7e2f0a4d61
  outbox-relay failed retry --topic 'order.*' --error 'message too large'
  outbox-relay failed discard --id 0194c6fc-2a8e-7d3b-9c1f-5b7e2f0a4d61 --keep --reason 'sent by hand'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageError(errors.New("failed requires one of list, show, retry and discard"))
		},
	}
	cmd.AddCommand(p.listing(&cobra.Command{
		Use:   "list",
		Short: "List failed rows, the latest failures first",
		Long:  "List failed rows, the latest failures first.\n",
		Args:  cobra.NoArgs,
	}, false), p.listing(&cobra.Command{
		Use:   "show [ID...]",
		Short: "Show failed rows in full, with headers and payload",
		Long:  "Show failed rows in full, with their keys, headers and payloads. Ids may also be given as arguments.\n",
	}, true), p.failedRetryCommand(), p.failedDiscardCommand())
	return cmd
}

// listing completes a command that lists failed rows: as JSON if that is requested, otherwise as lines, or in full with
// their content.
func (p *program) listing(cmd *cobra.Command, content bool) *cobra.Command {
	var limit uint32
	out := lines{cells: [][]string{{"ID", "DESTINATION", "TOPIC", "ATTEMPT", "FAILED AT", "LAST ERROR"}}}
	cmd.Long += selectionHelp
	cmd.Flags().Uint32Var(&limit, "limit", 1000, "how many `rows` at most, 0 for all")
	cmd.Flags().BoolVar(&out.json, "json", false, "print a line of JSON for each row, for machines")
	return p.selecting(config.NeedDatabase, cmd, "that failed", func(cmd *cobra.Command, selected operate.Selection,
		_ *config.Config, o *operate.Outbox,
	) error {
		most := cmp.Or(int64(limit), math.MaxInt64)
		found := int64(0)
		out.out = cmd.OutOrStdout()
		err := o.Failed(cmd.Context(), selected, most, content, func(row operate.FailedRow) error {
			if found++; content && !out.json {
				return showFailed(out.out, row)
			}
			return out.print(row, printable.Text(row.ID), row.Destination, printable.Cut(row.Topic, topicWidth),
				optional(row.Attempt), row.FailedAt.UTC().Format(time.RFC3339), short(row.LastError))
		})
		if err := errors.Join(err, out.end()); err != nil {
			return err
		}
		if found == most {
			fmt.Fprintf(cmd.ErrOrStderr(), "there may be more than %s: --limit 0 lists all\n", rows(found))
		}
		if content && found == 0 && len(selected.IDs) > 0 {
			return errors.New("no failed row has such an id; outbox-relay status --id shows where a row is")
		}
		return nil
	})
}

// showFailed prints a row in full.
func showFailed(out io.Writer, row operate.FailedRow) error {
	for _, field := range [][2]string{
		{"id", row.ID},
		{"destination", row.Destination},
		{"topic", row.Topic},
		{"key", optional(row.Key)},
		{"attempt", optional(row.Attempt)},
		{"inserted at", optional(row.InsertedAt)},
		{"failed at", row.FailedAt.String()},
		{"last error", optional(row.LastError)},
		{"headers", optional(row.Headers)},
		{"payload", optional(row.Payload)},
	} {
		name := field[0]
		for part := range strings.SplitSeq(strings.ReplaceAll(field[1], "\t", " "), "\n") {
			fmt.Fprintf(out, "%-12s %s\n", name, printable.Text(part))
			name = ""
		}
	}
	_, err := fmt.Fprintln(out)
	return err
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
