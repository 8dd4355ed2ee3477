package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// shownTopics is how many topics of a destination are shown.
const shownTopics = 10

// statusText is a report for people. The states come first and the details last, because what does not fit on a
// terminal is left out at the end.
func statusText(r operate.Report) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "%s  %s\n", r.Table, r.At.Format(time.RFC3339))
	writeOwnership(w, r.Ownership)
	rows := [][]string{{"\nDESTINATION", "DUE", "RETRYING", "SCHEDULED", "HELD", "FAILED", "OLDEST", "STATE"}}
	topics := [][]string{{"\nDESTINATION", "TOPIC", "DUE", "RETRYING", "SCHEDULED", "FAILED", "OLDEST"}}
	line := func(name string, b operate.Backlog, held, state string) {
		rows = append(rows, []string{
			name, number(b, b.Due, "due"), number(b, b.Retrying, "due"), number(b, b.Scheduled, "scheduled"), held,
			number(b, b.Failed, "failed"), age(b.OldestAgeSeconds), state,
		})
		shown := b.Topics[:min(len(b.Topics), shownTopics)]
		for _, t := range shown {
			topics = append(topics, []string{
				name, printable.Cut(t.Topic, topicWidth), number(b, &t.Due, "due"), number(b, &t.Retrying, "due"),
				number(b, &t.Scheduled, "scheduled"), number(b, &t.Failed, "failed"), age(t.OldestAgeSeconds),
			})
		}
		if more := len(b.Topics) - len(shown) + b.MoreTopics; more > 0 {
			topics = append(topics, []string{name, fmt.Sprintf("and %d more topics (--json lists them)", more)})
		}
	}
	for _, d := range r.Destinations {
		line(d.Name, d.Backlog, number(operate.Backlog{}, d.Held, ""), stateOf(d))
	}
	if r.Untaken != nil {
		line("(none)", *r.Untaken, "-", "no destination takes these")
	}
	_ = writeColumns(w, rows) // a builder takes everything
	writeNotes(w, troubles(r))
	if len(topics) > 1 {
		_ = writeColumns(w, topics)
	}
	for _, row := range r.Rows {
		writeRow(w, r, row)
	}
	writeNotes(w, r.Problems)
	return w.String()
}

func writeNotes(w io.Writer, notes []string) {
	for _, text := range notes {
		fmt.Fprintf(w, "\n! %s\n", printable.Text(text))
	}
}

// number formats a count of rows of a kind: with + if it is a lower bound, and ? if it was not taken.
func number(b operate.Backlog, count *int64, kind string) string {
	switch {
	case count == nil:
		return "?"
	case *count > 0 && slices.Contains(b.AtLeast, kind):
		return fmt.Sprintf("%d+", *count)
	}
	return fmt.Sprint(*count)
}

func writeOwnership(w *strings.Builder, o *operate.Ownership) {
	lines := [][]string{{fmt.Sprintf("replicas: %d", len(o.Replicas)), shardsOf(o.Shares)}}
	for _, g := range o.Groups {
		if len(o.Groups) > 1 {
			lines = append(lines, []string{"  " + printable.Text(strings.Join(g.Names, ", ")), shardsOf(g.Shares)})
		}
	}
	_ = writeColumns(w, lines)
}

// shardsOf describes who owns shards.
func shardsOf(s operate.Shares) string {
	text := fmt.Sprintf("shards owned: %d of %d", s.Owned, s.Shards)
	if s.Unowned > 0 {
		text = "! " + text
	}
	for _, replica := range s.Replicas {
		text += fmt.Sprintf("  %d by backend %d", replica.Shards, replica.Backend)
		if !replica.CanPublish {
			text += ", which cannot publish to all destinations"
		}
	}
	return text
}

// stateOf returns the state of a destination, as far as a relay has reported it.
func stateOf(d operate.Destination) string {
	p := d.Process
	switch {
	case p == nil:
		return "?"
	case p.Paused:
		return "paused"
	case !p.Up:
		return "down: " + printable.Text(p.Reason)
	case len(p.Holds) > 0:
		return "up, with something held"
	}
	return "up"
}

// troubles returns what is held, which checks of the relay on this host have failed, and what keeps rows from being
// marked, which no count shows. The states tell of destinations.
func troubles(r operate.Report) (all []string) {
	for _, d := range r.Destinations {
		if d.Process == nil {
			continue
		}
		for _, h := range d.Process.Holds {
			all = append(all, fmt.Sprintf("%s is held since %s (%s): %s", h.What, h.Since.UTC().Format(time.RFC3339),
				h.Reason, h.Error))
		}
	}
	if r.Process != nil {
		for _, c := range r.Process.Checks {
			if (!c.OK || c.Name == "marks") && !strings.HasPrefix(c.Name, "destination ") {
				all = append(all, c.Name+": "+c.Text)
			}
		}
	}
	return all
}

func writeRow(w *strings.Builder, r operate.Report, row operate.Row) {
	fmt.Fprintf(w, "\nrow %s  topic %s  shard %d\n", printable.Text(row.ID), printable.Text(row.Topic), row.Shard)
	var lines [][]string
	for _, f := range row.Fates {
		at := slices.IndexFunc(r.Destinations, func(d operate.Destination) bool { return d.Name == f.Destination })
		if waits := f.State == "due" || f.State == "retrying"; waits && at >= 0 {
			f.Why = cmp.Or(heldFor(r.Destinations[at], f.Topic), f.Why)
		}
		lines = append(lines, []string{
			"  " + f.Destination, f.State, "attempt " + optional(f.Attempt), printable.Text(f.Why),
		})
		if f.LastError != nil {
			lines = append(lines, []string{"  ", "", "last error", short(f.LastError)})
		}
	}
	_ = writeColumns(w, lines)
}

// heldFor returns why a topic on the broker of a destination is held, as far as the topic is known and a relay has
// reported it; empty if it is not held.
func heldFor(d operate.Destination, topic *string) string {
	if d.Process == nil {
		return ""
	}
	if d.Process.Paused || !d.Process.Up {
		return "the destination is " + stateOf(d)
	}
	for _, h := range d.Process.Holds {
		if topic != nil && slices.Contains(h.Topics, *topic) {
			return fmt.Sprintf("%s is held (%s): %s", h.What, h.Reason, h.Error)
		}
	}
	return ""
}

// age formats a number of seconds.
func age(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	// It may be millennia.
	d := time.Duration(min(*seconds, math.MaxInt64/float64(2*time.Second)) * float64(time.Second))
	return d.Round(time.Second).String()
}
