package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// shownTopics is how many topics of a destination are shown.
const shownTopics = 10

// statusText is a report for people. The states come first and the details last, because what does not fit on a
// terminal is left out at the end; between them is a text of the caller's.
func statusText(r operate.Report, between string) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "%s  %s\n", r.Table, r.At.Format(time.RFC3339))
	writeOwnership(w, r.Ownership)
	rows := [][]string{{"\nDESTINATION", "DUE", "RETRYING", "SCHEDULED", "HELD", "FAILED", "OLDEST", "STATE"}}
	topics := [][]string{{"\nDESTINATION", "TOPIC", "DUE", "RETRYING", "SCHEDULED", "FAILED", "OLDEST"}}
	line := func(name string, b operate.Backlog, held, state string) {
		oldest := b.OldestAgeSeconds
		if b.Due == nil || *b.Due == 0 {
			oldest = nil
		}
		rows = append(rows, []string{
			name, number(b, b.Due, "due"), number(b, b.Retrying, "due"), number(b, b.Scheduled, "scheduled"), held,
			number(b, b.Failed, "failed"), age(oldest), state,
		})
		for i, t := range b.Topics {
			if i == shownTopics {
				topics = append(topics, []string{
					name, fmt.Sprintf("and %d more topics (--json lists them)", len(b.Topics)-i+b.MoreTopics),
				})
				break
			}
			topics = append(topics, []string{
				name, printable.Cut(t.Topic, topicWidth), number(b, &t.Due, "due"), number(b, &t.Retrying, "due"),
				number(b, &t.Scheduled, "scheduled"), number(b, &t.Failed, "failed"), age(t.OldestAgeSeconds),
			})
		}
	}
	for _, d := range r.Destinations {
		line(d.Name, d.Backlog, number(operate.Backlog{}, d.Held, ""), stateOf(d))
	}
	if r.Untaken != nil {
		line("(none)", *r.Untaken, "-", "no destination takes these")
	}
	writeColumns(w, rows)
	w.WriteString(between)
	for _, d := range r.Destinations {
		writeHolds(w, d)
	}
	writeChecks(w, r)
	if len(topics) > 1 {
		writeColumns(w, topics)
	}
	writeRows(w, r)
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "\n! %s\n", printable.Text(problem))
	}
	return w.String()
}

// columns returns a writer that aligns what tabs separate.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// writeColumns writes lines whose cells are aligned. It leaves an error to whoever writes next.
func writeColumns(w io.Writer, lines [][]string) {
	out := columns(w)
	for _, cells := range lines {
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	_ = out.Flush()
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
	if o == nil {
		return
	}
	fmt.Fprintf(w, "replicas: %d  %s\n", len(o.Replicas), shardsOf(o.Owned, o.Shards, o.Replicas))
	if len(o.Groups) < 2 {
		return
	}
	var lines [][]string
	for _, g := range o.Groups {
		text := shardsOf(g.Owned, g.Shards, g.Replicas)
		if !g.Configured && g.Unserved() {
			text = "! no replica relays it"
		}
		lines = append(lines, []string{"  " + printable.Text(strings.Join(g.Destinations, ", ")), text})
	}
	writeColumns(w, lines)
}

// shardsOf describes who owns shards.
func shardsOf(owned, shards int, replicas []operate.Replica) string {
	text := fmt.Sprintf("shards owned: %d of %d", owned, shards)
	if owned < shards {
		text = "! " + text
	}
	each := make([]string, len(replicas))
	for i, replica := range replicas {
		each[i] = fmt.Sprintf("%d (backend %d)", replica.Shards, replica.Backend)
		if replica.CanPublish {
			continue
		}
		each[i] += " cannot publish"
		if to := replica.CannotPublishTo; len(to) > 0 {
			each[i] += " to " + strings.Repeat("all of ", min(len(to)-1, 1)) + printable.Text(strings.Join(to, ", "))
		}
	}
	if len(each) > 0 {
		text += "  by replica: " + strings.Join(each, ", ")
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
	case !p.Up && d.BestEffort:
		return "down (best effort): " + printable.Text(p.Reason)
	case !p.Up:
		return "down: " + printable.Text(p.Reason)
	case len(p.Holds) > 0:
		return "up, with something held"
	default:
		return "up"
	}
}

func writeHolds(w *strings.Builder, d operate.Destination) {
	if d.Process == nil {
		return
	}
	for i, h := range d.Process.Holds {
		if i == shownTopics {
			fmt.Fprintf(w, "  and %d more that are held\n", len(d.Process.Holds)-i)
			return
		}
		fmt.Fprintf(w, "\n! %s is held since %s (%s): %s\n", printable.Text(h.What),
			h.Since.UTC().Format(time.RFC3339), h.Reason, printable.Text(h.Error))
	}
}

// writeChecks writes the checks of the relay on this host that have failed, and what keeps rows from being marked,
// which no count shows. The states tell of destinations.
func writeChecks(w *strings.Builder, r operate.Report) {
	if r.Process == nil {
		return
	}
	for _, c := range r.Process.Checks {
		if (!c.OK || c.Name == "marks") && !strings.HasPrefix(c.Name, "destination ") {
			fmt.Fprintf(w, "\n! %s: %s\n", c.Name, printable.Text(c.Text))
		}
	}
}

func writeRows(w *strings.Builder, r operate.Report) {
	for _, row := range r.Rows {
		fmt.Fprintf(w, "\nrow %s  topic %s  shard %d\n", printable.Text(row.ID), printable.Text(row.Topic), row.Shard)
		var lines [][]string
		for _, f := range row.Fates {
			why := f.Why
			if held := heldFor(r, f.Destination, f.Topic); held != "" &&
				(f.State == operate.StateDue || f.State == operate.StateRetrying) {
				why = held
			}
			lines = append(lines, []string{
				"  " + f.Destination, f.State, "attempt " + optional(f.Attempt), printable.Text(why),
			})
			if f.LastError != nil {
				lines = append(lines, []string{"  ", "", "last error", short(f.LastError)})
			}
		}
		writeColumns(w, lines)
	}
}

// heldFor returns why a topic on the broker of a destination is held, as far as the topic is known and a relay has
// reported it; empty if it is not held.
func heldFor(r operate.Report, destination string, topic *string) string {
	for _, d := range r.Destinations {
		if d.Name != destination || d.Process == nil {
			continue
		}
		if d.Process.Paused {
			return "the destination is paused"
		}
		if !d.Process.Up {
			return "the destination is down: " + d.Process.Reason
		}
		for _, h := range d.Process.Holds {
			if topic != nil && slices.Contains(h.Topics, *topic) {
				return fmt.Sprintf("%s is held (%s): %s", h.What, h.Reason, h.Error)
			}
		}
	}
	return ""
}

// age formats a number of seconds in a short form.
func age(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	d := time.Duration(min(*seconds, math.MaxInt64/float64(2*time.Second)) * float64(time.Second)) // it may be millennia
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return d.Round(time.Second).String()
	default:
		return d.Round(100 * time.Millisecond).String()
	}
}
