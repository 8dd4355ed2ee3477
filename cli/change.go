package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/printable"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// changing is a command that changes rows, with its flags.
type changing struct {
	change            operate.Change
	dryRun, yes, json bool
}

const changingHelp = `

The command asks for confirmation before it changes more than one row, and requires --yes without a terminal. It
changes rows in small transactions and may be stopped at any time and run again. It exits 3 when it was stopped, or
when another session keeps rows locked.`

// apply changes the chosen rows.
func (c *changing) apply(cmd *cobra.Command, chosen operate.Selection, settings *config.Config, o *operate.Outbox,
) error {
	if c.change.Verb == "discard" && chosen.IsZero() && c.yes && !c.dryRun {
		// As likely as not an unset variable was to hold the ids, and the rows would be gone.
		return usageError(errors.New("--yes without a selection would discard every failed row: choose rows, or say " +
			"--topic '*' for all of them"))
	}
	mayDeduplicate := func(d config.Destination) bool {
		return d.Broker.Scheme == "" || d.Broker.Protocol == publisher.ProtocolNATS
	}
	if c.change.Verb == "replay" && slices.ContainsFunc(settings.Destinations, mayDeduplicate) {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: a JetStream stream drops messages that it has stored within its "+
			"duplicate window; such rows are marked as relayed again, and not stored again")
	}
	var result operate.Result
	var err error
	for more := true; more && err == nil; c.yes = true { // what was confirmed once holds for the rows chosen next
		result, more, err = c.applyOnce(cmd, chosen, settings.ListenChannel, o)
	}
	if err == nil && result.Locked > 0 { // rows that were locked before have been chosen again
		err = unfinishedError(fmt.Errorf("another session keeps %s locked; run the command again for them",
			rows(result.Locked)))
	}
	return err
}

// applyOnce changes as many rows as are chosen at once.
func (c *changing) applyOnce(cmd *cobra.Command, chosen operate.Selection, channel string, o *operate.Outbox) (
	result operate.Result, more bool, err error,
) {
	ctx, problems, change := cmd.Context(), cmd.ErrOrStderr(), c.change
	choice, err := o.Choose(ctx, change, chosen)
	if err != nil {
		return result, false, err
	}
	defer choice.Close(ctx)
	what := rows(choice.Rows)
	if choice.More() {
		what = "at least " + what
	}
	if e := o.Strangers(); e != nil && change.Deletes && choice.Rows > 0 {
		fmt.Fprintf(problems, "no row is deleted, as with --keep: %v\n", e)
	}
	if c.dryRun {
		err := choice.Each(ctx, func(row operate.Chosen) error { return c.print(cmd, row) })
		if err == nil {
			fmt.Fprintf(problems, "would %s %s; nothing was changed\n", change.Verb, what)
		}
		return result, false, err
	}
	if choice.Rows > 1 && !c.yes {
		// A script that forgot --yes must fail at once rather than wait for ever.
		if !isTerminal(cmd.InOrStdin()) {
			return result, false, usageError(fmt.Errorf("this would %s %s, but there is no terminal for confirmation; "+
				"use --yes, or --dry-run to list them", change.Verb, what))
		}
		if !ask(ctx, cmd.InOrStdin(), problems, change.Verb+" "+what+"?") {
			return result, false, errors.New("nothing was changed")
		}
	}
	bar := &progressBar{out: problems, on: isTerminal(problems), total: choice.Rows}
	result, err = choice.Apply(ctx, channel, operate.Progress{
		Done: bar.show,
		Waits: func(what string) {
			bar.clear()
			fmt.Fprintf(problems, "waiting: %s\n", what)
		},
		Row: func(row operate.Chosen) error {
			if !c.json {
				return nil
			}
			bar.clear()
			return c.print(cmd, row)
		},
	})
	bar.clear()
	fmt.Fprintf(problems, "%s: %s\n", change.Done, rows(result.Changed))
	if err == nil && result.Left > 0 {
		err = unfinishedError(fmt.Errorf("stopped with %s left; run the command again for them", rows(result.Left)))
	}
	return result, choice.More() && result.Changed > 0, err
}

func (c *changing) print(cmd *cobra.Command, row operate.Chosen) error {
	out := cmd.OutOrStdout()
	if c.json {
		return writeJSON(out, row, "")
	}
	_, err := fmt.Fprintf(out, "%s  %s  %s\n", printable.Text(row.ID), row.Destination, printable.Text(row.Topic))
	return err
}

// rows formats a number of rows.
func rows(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
