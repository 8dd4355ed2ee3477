package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/printable"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// verifyRest is the least time since rows were relayed, by default.
const verifyRest = 5 * time.Second

func (p *program) verifyCommand() *cobra.Command {
	asJSON := false
	cmd := p.selecting(config.NeedAll, &cobra.Command{
		Use:   "verify",
		Short: "Compare the outbox with the messages in Kafka or JetStream",
		Long: `Compare relayed rows with the messages in Kafka or JetStream, by message id and topic, and list rows that
are

  missing        the broker has no message with this id
  gone           the same, but the broker removes messages (old, consumed or superseded ones) and may have removed it
  duplicated     the broker has more than one; delivery is at least once, and replay makes duplicates
  not_compared   no stream of the account lists the subject; OUTBOX_NATS_STREAM may name the stream
  out_of_order   the row's first message precedes that of an older row of its key, in one partition or stream

It cannot compare messages in RabbitMQ, where reading a queue removes its messages. It changes and consumes nothing, and
prints neither keys nor payloads. By default rows are compared that were relayed from one hour to five seconds ago. The
clocks of the application, the database and the brokers must agree within five minutes, or every row is reported as
missing.
` + selectionHelp + `

Exit status: 1 when a row is missing, out of order or not compared, 2 when no destination can be compared.`,
		Example: `  outbox-relay verify
  outbox-relay verify --since 2026-03-01T12:00:00Z --until 2026-03-01T13:00:00Z --topic 'order.*'`,
		Args: cobra.NoArgs,
	}, "that were relayed", func(cmd *cobra.Command, chosen operate.Selection, c *config.Config,
		o *operate.Outbox,
	) error {
		if chosen.Since.IsZero() && chosen.Until.IsZero() && len(chosen.IDs) == 0 {
			chosen.Since = time.Now().Add(-time.Hour)
		}
		if chosen.Until.IsZero() {
			chosen.Until = time.Now().Add(-verifyRest)
		}
		return p.verify(cmd, c, o, chosen, asJSON)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each such row, and one for each "+
		"destination, for machines")
	return cmd
}

// verify compares the chosen destinations.
func (p *program) verify(cmd *cobra.Command, c *config.Config, o *operate.Outbox, chosen operate.Selection,
	asJSON bool,
) error {
	var all operate.Comparison
	compared := false
	out := &lines{out: cmd.OutOrStdout(), json: asJSON, cells: [][]string{
		{"ID", "DESTINATION", "TOPIC", "RELAYED AT", "PROBLEM", "DETAILS"},
	}}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		if chosen.Destination != "" && chosen.Destination != d.Name {
			continue
		}
		client, err := p.newPublisher(c, i, io.Discard, slog.New(slog.DiscardHandler))
		if err != nil {
			return usageError(err)
		}
		defer func() { _ = client.Close() }() // nothing was written
		reader, reads := client.(publisher.Reader)
		if !reads {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: destination %s cannot be compared: RabbitMQ and standard output do "+
				"not let anybody look at messages without taking them away\n", d.Name)
			continue
		}
		compared = true
		broker := operate.Broker{
			Reader: reader, ID: profile.IDOf(d.WireFormat, d.Broker.Protocol), Anytime: d.TimeColumn != "",
		}
		found, err := o.Verify(cmd.Context(), i, broker, chosen,
			func(found operate.Discrepancy) error { return writeDiscrepancy(out, found) })
		if err := errors.Join(err, out.end()); err != nil {
			return err
		}
		if err := writeComparison(out, found); err != nil {
			return err
		}
		all.Rows, all.Missing = all.Rows+found.Rows, all.Missing+found.Missing
		all.Disordered, all.Unknown = all.Disordered+found.Disordered, all.Unknown+found.Unknown
	}
	switch {
	case !compared:
		return usageError(errors.New("no destination can be compared"))
	case all.Rows == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "no row was compared: none that was chosen was relayed in that time (without "+
			"--since, the last hour; without --until, rows of the last "+verifyRest.String()+" are left out)")
	case all.Missing+all.Disordered+all.Unknown > 0:
		return fmt.Errorf("the brokers and the outbox differ: %s missing, %d out of order, %d not compared",
			rows(all.Missing), all.Disordered, all.Unknown)
	}
	return nil
}

func writeDiscrepancy(out *lines, found operate.Discrepancy) error {
	details := found.Why
	switch {
	case found.Before != "":
		details = fmt.Sprintf("at %d of %s, before the older row %s", *found.Position, found.Place, found.Before)
	case found.Position != nil:
		details = fmt.Sprintf("%d messages, the first at %d of %s", found.Messages, *found.Position, found.Place)
	}
	return out.print(found, printable.Text(found.ID), found.Destination, printable.Text(found.Topic),
		found.RelayedAt.Format(time.RFC3339), found.Problem, printable.Text(details))
}

// writeComparison prints the sum for a destination.
func writeComparison(out *lines, found operate.Comparison) error {
	if out.json {
		return out.print(found)
	}
	order := fmt.Sprintf("%d out of order", found.Disordered)
	if found.Unordered {
		order = "order not compared"
	}
	_, err := fmt.Fprintf(out.out, "destination %s: %s, %d missing, %d gone, %d duplicated, %d not compared, %s\n",
		found.Destination, rows(found.Rows), found.Missing, found.Gone, found.Duplicated, found.Unknown, order)
	return err
}
