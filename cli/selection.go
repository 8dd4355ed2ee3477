package cli

import (
	"errors"
	"fmt"
	"io"
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
	operate.Selection // all but the key and the times
	program           *program
	key               string
	since, until      moment
	topicsOf          bool // the topics on the broker of rows that are given by their ids are of interest
}

// list is a flag with several texts. Quotes in them have no special meaning, since ids and topics of rows may contain
// quotes.
type list []string

func (l *list) Set(text string) error {
	*l = append(*l, strings.Split(text, ",")...)
	return nil
}

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Type() string { return "strings" }

// selectionHelp is the explanation of the flags that all commands share.
const selectionHelp = `
Rows are chosen by the flags, all of which must fit. Without any it is all rows in that state. A topic may be a pattern
as in OUTBOX_DESTINATION_NAME_TOPICS: * is any text, ! leaves out. Times are RFC 3339 (2026-03-01T12:00:00Z) or how long
ago (2h, 3d).`

// add adds the flags to a command. when describes the time to which --since and --until apply.
func (s *selection) add(p *program, cmd *cobra.Command, when string) {
	s.program = p
	flags := cmd.Flags()
	flags.Var((*list)(&s.IDs), "id", "ids of rows, repeated or separated by commas")
	flags.Var((*list)(&s.Topics), "topic", "topics or patterns of topics, repeated or separated by commas")
	flags.StringVar(&s.key, "key", "", "rows with this ordering key")
	flags.Var(&s.since, "since", "rows "+when+" at this time or later")
	flags.Var(&s.until, "until", "rows "+when+" before this time")
	flags.StringVar(&s.Error, "error", "", "rows whose last error contains this text, in whatever case")
	flags.StringVar(&s.Destination, "destination", "", "this destination's rows and their state there; without it, "+
		"those of all destinations")
}

// open returns the selection that the flags describe and the outbox to which it applies. The caller must close the
// outbox.
func (s *selection) open(cmd *cobra.Command) (operate.Selection, *operating, error) {
	chosen, err := s.chosen(cmd)
	if err != nil {
		return chosen, nil, err
	}
	o, err := s.program.openOutbox(cmd.Context(), s.topicsOf && len(chosen.IDs) > 0)
	return chosen, o, err
}

// chosen returns the selection that the flags describe. A flag with an empty value is refused: it comes from an unset
// variable, and would choose all rows.
func (s *selection) chosen(cmd *cobra.Command) (operate.Selection, error) {
	for flag, empty := range map[string]bool{
		"id":    len(s.IDs) == 0 || slices.Contains(s.IDs, ""),
		"topic": len(s.Topics) == 0 || slices.Contains(s.Topics, ""),
		"error": s.Error == "", "destination": s.Destination == "",
	} {
		if empty && cmd.Flags().Changed(flag) {
			return operate.Selection{}, usageError(fmt.Errorf("--%s is empty: give it a value, or leave it out for "+
				"all rows", flag))
		}
	}
	if slices.Contains(s.Topics, "!") {
		return operate.Selection{}, usageError(errors.New("--topic holds the empty pattern \"!\": name after it the " +
			"topics to leave out"))
	}
	if !s.since.IsZero() && !s.until.IsZero() && !s.since.Before(s.until.Time) {
		return operate.Selection{}, usageError(fmt.Errorf("--since %s is not before --until %s, so no row can match",
			s.since.text, s.until.text))
	}
	chosen := s.Selection
	chosen.Since, chosen.Until = s.since.Time, s.until.Time
	if cmd.Flags().Changed("key") {
		chosen.Key = &s.key
	}
	return chosen, nil
}

// A moment is a time as people write it: RFC 3339, or how long ago.
type moment struct {
	time.Time
	text string
}

func (m *moment) String() string { return m.text }

// Type is the name of the value in the help text.
func (*moment) Type() string { return "time" }

// Set reads a time.
func (m *moment) Set(text string) error {
	m.text = text
	var err error
	if m.Time, err = time.Parse(time.RFC3339Nano, text); err == nil && !m.IsZero() { // the zero time means none
		return nil
	}
	var ago config.Duration
	if ago.Set(strings.TrimPrefix(text, "-")) != nil || ago < 0 {
		return errors.New("write a time as 2026-03-01T12:00:00Z, or how long ago as 90s, 2h or 3d")
	}
	m.Time = time.Now().Add(-time.Duration(ago))
	return nil
}

// noteAbsent reports that rows were chosen by their ids, and that there are fewer of them in the state that the command
// is about: an id may be mistyped, or its row was changed before.
func noteAbsent(problems io.Writer, ids []string, found int64) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if absent := int64(len(ids)) - found; absent > 0 {
		fmt.Fprintf(problems, "ids without a row that fits: %d of %d\n", absent, len(ids))
	}
}

// rightsError returns the error for a role that lacks a right, with the remedy, and nil for any other error. purpose is
// that of the command grants.
func rightsError(err error, purpose string) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" { // insufficient_privilege
		return nil
	}
	return fmt.Errorf("%w: let the table's owner run what `outbox-relay grants --role ROLE --for %s` prints, with the "+
		"role of OUTBOX_DATABASE_URL", err, purpose)
}

// selectionError turns mistakes in a selection into usage errors.
func selectionError(err error) error {
	if _, unknown := errors.AsType[*operate.UnknownDestinationError](err); unknown {
		return usageError(fmt.Errorf("--destination: %w", err))
	}
	if operate.WrongID(err) {
		return usageError(fmt.Errorf("--id: an id is not of the type of the table's ids: %w", err))
	}
	return err
}
