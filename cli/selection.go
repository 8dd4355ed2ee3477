package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// selection holds the flags by which commands choose rows.
type selection struct {
	operate.Selection
	key, since, until string
}

// selectionHelp is the explanation of the flags that all commands share.
const selectionHelp = `
Rows are chosen by the flags, all of which must fit. Without any it is all rows in that state. A topic may be a pattern
as in OUTBOX_DESTINATION_NAME_TOPICS: * is any text, ! leaves out. Times are RFC 3339 (2026-03-01T12:00:00Z) or how long
ago (2h, 3d).`

// selecting completes a command that works on the rows that its flags and its arguments, which are ids, choose, and
// opens the table for it. when describes the time to which --since and --until apply.
func (p *program) selecting(needs config.Needs, cmd *cobra.Command, when string,
	do func(*cobra.Command, operate.Selection, *config.Config, *operate.Outbox) error,
) *cobra.Command {
	var s selection
	flags := cmd.Flags()
	flags.StringArrayVar(&s.IDs, "id", nil, "`ids` of rows, repeated or separated by commas")
	flags.StringArrayVar(&s.Topics, "topic", nil, "`topics` or patterns of topics, repeated or separated by commas")
	flags.StringVar(&s.key, "key", "", "rows with this ordering `key`")
	flags.StringVar(&s.since, "since", "", "rows "+when+" at this `time` or later")
	flags.StringVar(&s.until, "until", "", "rows "+when+" before this `time`")
	flags.StringVar(&s.Error, "error", "", "rows whose last error contains this `text`, in whatever case")
	flags.StringVar(&s.Destination, "destination", "", "rows of the destination with this `name` and their state "+
		"there; without it, those of all destinations")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		chosen, err := s.chosen(cmd)
		if err != nil {
			return err
		}
		chosen.IDs = append(chosen.IDs, ids...)
		c, err := p.load(needs)
		if err != nil {
			return usageError(err)
		}
		known := func(d config.Destination) bool { return d.Name == chosen.Destination }
		if chosen.Destination != "" && !slices.ContainsFunc(c.Destinations, known) {
			return usageError(fmt.Errorf("--destination: OUTBOX_DESTINATIONS has no %q", chosen.Destination))
		}
		o, err := openOutbox(cmd.Context(), c)
		if err == nil {
			err = do(cmd, chosen, c, o)
			o.Close()
		}
		return explained(err, cmd, chosen)
	}
	return cmd
}

// chosen returns the selection that the flags describe. A flag with an empty value is refused: it comes from an unset
// variable, and would choose all rows. Quotes have no special meaning, since ids and topics of rows may contain quotes.
func (s *selection) chosen(cmd *cobra.Command) (chosen operate.Selection, err error) {
	given := cmd.Flags().Changed
	split := func(texts []string) (all []string) {
		for _, text := range texts {
			all = append(all, strings.Split(text, ",")...)
		}
		return all
	}
	chosen = s.Selection
	chosen.IDs, chosen.Topics = split(s.IDs), split(s.Topics)
	if given("key") {
		chosen.Key = &s.key
	}
	for flag, values := range map[string][]string{
		"id": chosen.IDs, "topic": chosen.Topics, "error": {s.Error}, "destination": {s.Destination},
	} {
		if given(flag) && slices.Contains(values, "") {
			return chosen, usageError(fmt.Errorf("--%s is empty: give it a value, or leave it out for all rows", flag))
		}
	}
	if slices.Contains(chosen.Topics, "!") {
		return chosen, usageError(errors.New(`--topic holds the empty pattern "!": name a topic after it`))
	}
	if chosen.Since, err = moment(cmd, "since", s.since); err != nil {
		return chosen, usageError(err)
	}
	if chosen.Until, err = moment(cmd, "until", s.until); err != nil {
		return chosen, usageError(err)
	}
	return chosen, nil
}

// moment reads a flag with a time as people write it: RFC 3339, or how long ago. The zero time stands for none.
func moment(cmd *cobra.Command, flag, text string) (at time.Time, err error) {
	if !cmd.Flags().Changed(flag) {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339Nano, text); err == nil && !at.IsZero() {
		return at, nil
	}
	var ago config.Duration
	if ago.Set(strings.TrimPrefix(text, "-")) != nil || ago < 0 {
		return at, fmt.Errorf("--%s %q: write a time as 2026-03-01T12:00:00Z, or how long ago as 90s, 2h or 3d",
			flag, text)
	}
	return time.Now().Add(-time.Duration(ago)), nil
}

// explained adds to a command's error which rights its role lacks, and turns mistakes in a selection into usage errors.
func explained(err error, cmd *cobra.Command, chosen operate.Selection) error {
	const insufficientPrivilege, invalidText, outOfRange = "42501", "22P02", "22003"
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case e.Code == insufficientPrivilege:
		purpose := "operate"
		if cmd.Name() == "prune" {
			purpose = "prune"
		}
		return fmt.Errorf("%w: let the table's owner run what `outbox-relay grants --role ROLE --for %s` prints, with "+
			"the role of OUTBOX_DATABASE_URL", e, purpose) // without the remedy that is for the relay's role
	case len(chosen.IDs) > 0 && (e.Code == invalidText || e.Code == outOfRange):
		return usageError(fmt.Errorf("--id: an id is not of the type of the table's ids: %w", err))
	}
	return err
}
