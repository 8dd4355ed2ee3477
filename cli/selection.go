package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// selection are the flags by which commands choose rows.
type selection struct {
	program      *program
	ids, topics  list
	key          string
	since, until moment
	text         string
	destination  string
}

// list is a flag of several texts. Quotes in them mean nothing, since ids and topics of rows may hold quotes.
type list []string

func (l *list) Set(text string) error {
	*l = append(*l, strings.Split(text, ",")...)
	return nil
}

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Type() string { return "strings" }

// selectionHelp explains the flags once for all commands.
const selectionHelp = `
Rows are chosen by the flags, all of which must fit. Without any it is all rows in that state. A topic may be a pattern as in
OUTBOX_DESTINATION_NAME_TOPICS: * is any text, ! leaves out. Times are RFC 3339 (2026-03-01T12:00:00Z) or how long ago (2h, 3d).`

// add adds the flags to a command; when says what --since and --until are about.
func (s *selection) add(p *program, cmd *cobra.Command, when string) {
	s.program = p
	flags := cmd.Flags()
	flags.Var(&s.ids, "id", "ids of rows, repeated or separated by commas")
	flags.Var(&s.topics, "topic", "topics or patterns of topics, repeated or separated by commas")
	flags.StringVar(&s.key, "key", "", "rows with this ordering key")
	flags.Var(&s.since, "since", "rows "+when+" at this time or later")
	flags.Var(&s.until, "until", "rows "+when+" before this time")
	flags.StringVar(&s.text, "error", "", "rows whose last error contains this text, in whatever case")
	flags.StringVar(&s.destination, "destination", "", "this destination's rows and their state there; without it, those of all destinations")
	if err := cmd.RegisterFlagCompletionFunc("destination", p.completeDestination); err != nil {
		panic(err) // the flag is there
	}
}

// completeDestination completes the name of a destination in a shell.
func (p *program) completeDestination(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, err := p.loadOffline()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, d := range c.Destinations {
		names = append(names, d.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// open returns the selection that the flags make and the outbox that it is about, which is to be closed.
func (s *selection) open(cmd *cobra.Command) (operate.Selection, *operating, error) {
	chosen, err := s.chosen(cmd)
	if err != nil {
		return chosen, nil, err
	}
	o, err := s.program.openOutbox(cmd.Context())
	return chosen, o, err
}

// chosen returns the selection that the flags make. A flag that is given without a value is refused: it comes from a variable that is not
// set, and would choose all rows.
func (s *selection) chosen(cmd *cobra.Command) (operate.Selection, error) {
	for flag, empty := range map[string]bool{"id": len(s.ids) == 0 || slices.Contains(s.ids, ""), "topic": len(s.topics) == 0 ||
		slices.Contains(s.topics, ""),
		"error": s.text == "", "destination": s.destination == ""} {
		if empty && cmd.Flags().Changed(flag) {
			return operate.Selection{}, usageError(fmt.Errorf("--%s is empty: give it a value, or leave it out for all rows", flag))
		}
	}
	chosen := operate.Selection{IDs: s.ids, Topics: s.topics, Since: s.since.Time, Until: s.until.Time, Error: s.text,
		Destination: s.destination}
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

// Type is how the help calls the value of such a flag.
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

// selectionError makes mistakes in a selection usage errors.
func selectionError(err error) error {
	if _, unknown := errors.AsType[*operate.UnknownDestinationError](err); unknown {
		return usageError(fmt.Errorf("--destination: %w", err))
	}
	if operate.WrongID(err) {
		return usageError(fmt.Errorf("--id: an id is not of the type of the table's ids: %w", err))
	}
	return err
}
