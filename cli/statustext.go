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

// writeStatus writes a report for people.
func writeStatus(w io.Writer, r operate.Report) error {
	if err := writeStates(w, r); err != nil {
		return err
	}
	return writeDetails(w, r)
}

// writeStates writes the state of each destination.
func writeStates(w io.Writer, r operate.Report) error {
	fmt.Fprintf(w, "%s  %s\n", r.Table, r.At.Format(time.RFC3339))
	writeOwnership(w, r)
	fmt.Fprintln(w)
	out := columns(w)
	fmt.Fprintln(out, "DESTINATION\tDUE\tRETRYING\tSCHEDULED\tHELD\tFAILED\tOLDEST\tSTATE")
	line := func(name string, b operate.Backlog, held, state string) {
		oldest := b.OldestAgeSeconds
		if b.Due == nil || *b.Due == 0 {
			oldest = nil
		}
		fmt.Fprintln(out, strings.Join([]string{
			name, number(b, b.Due, "due"), number(b, b.Retrying, "due"), number(b, b.Scheduled, "scheduled"), held,
			number(b, b.Failed, "failed"), age(oldest), state,
		}, "\t"))
	}
	for _, d := range r.Destinations {
		line(d.Name, d.Backlog, number(operate.Backlog{}, d.Held, ""), stateOf(d))
	}
	if r.Untaken != nil {
		line("(none)", *r.Untaken, "-", "no destination takes these")
	}
	return out.Flush()
}

// columns returns a writer that aligns what tabs separate.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

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

// writeDetails writes what is behind the states: what is held, topics, chosen rows, and what is not known.
func writeDetails(w io.Writer, r operate.Report) error {
	for _, d := range r.Destinations {
		writeHolds(w, d)
	}
	writeChecks(w, r)
	writeTopics(w, r)
	if err := writeRows(w, r); err != nil {
		return err
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "\n! %s\n", printable.Text(problem))
	}
	return nil
}

func writeOwnership(w io.Writer, r operate.Report) {
	o := r.Ownership
	if o == nil {
		return
	}
	fmt.Fprintf(w, "replicas: %d  %s\n", len(o.Replicas), shardsOf(o.Owned, o.Shards, o.Replicas))
	if len(o.Groups) < 2 {
		return
	}
	out := columns(w)
	for _, g := range o.Groups {
		text := shardsOf(g.Owned, g.Shards, g.Replicas)
		if !g.Configured && g.Unserved() {
			text = "! no replica relays it"
		}
		fmt.Fprintf(out, "  %s\t%s\n", printable.Text(strings.Join(g.Destinations, ", ")), text)
	}
	_ = out.Flush() // the next write reports the error
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
		to := printable.Text(strings.Join(replica.CannotPublishTo, ", "))
		switch len(replica.CannotPublishTo) {
		case 0:
			to = ""
		case 1:
			to = " to " + to
		default:
			to = " to all of " + to
		}
		if !replica.CanPublish {
			each[i] += " cannot publish" + to
		}
	}
	if len(each) > 0 {
		text += "  " + "by replica: " + strings.Join(each, ", ")
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

func writeHolds(w io.Writer, d operate.Destination) {
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
func writeChecks(w io.Writer, r operate.Report) {
	if r.Process == nil {
		return
	}
	for _, c := range r.Process.Checks {
		if (!c.OK || c.Name == "marks") && !strings.HasPrefix(c.Name, "destination ") {
			fmt.Fprintf(w, "\n! %s: %s\n", c.Name, printable.Text(c.Text))
		}
	}
}

func writeTopics(w io.Writer, r operate.Report) {
	out := columns(w)
	header := "\nDESTINATION\tTOPIC\tDUE\tRETRYING\tSCHEDULED\tFAILED\tOLDEST\n"
	list := func(name string, b operate.Backlog) {
		for i, t := range b.Topics {
			fmt.Fprint(out, header)
			header = ""
			if i == shownTopics {
				fmt.Fprintf(out, "%s\tand %d more topics (--json lists them)\n", name, len(b.Topics)-i+b.MoreTopics)
				return
			}
			fmt.Fprintln(out, strings.Join([]string{
				name, printable.Cut(t.Topic, topicWidth), number(b, &t.Due, "due"), number(b, &t.Retrying, "due"),
				number(b, &t.Scheduled, "scheduled"), number(b, &t.Failed, "failed"), age(t.OldestAgeSeconds),
			}, "\t"))
		}
	}
	for _, d := range r.Destinations {
		list(d.Name, d.Backlog)
	}
	if r.Untaken != nil {
		list("(none)", *r.Untaken)
	}
	_ = out.Flush() // the next write reports the error
}

func writeRows(w io.Writer, r operate.Report) error {
	for _, row := range r.Rows {
		fmt.Fprintf(w, "\nrow %s  topic %s  shard %d\n", printable.Text(row.ID), printable.Text(row.Topic), row.Shard)
		out := columns(w)
		for _, f := range row.Fates {
			why := f.Why
			if topic := heldFor(r, f.Destination, f.Topic); topic != "" &&
				(f.State == operate.StateDue || f.State == operate.StateRetrying) {
				why = topic
			}
			fmt.Fprintf(out, "  %s\t%s\tattempt %s\t%s\n", f.Destination, f.State, optional(f.Attempt),
				printable.Text(why))
			if f.LastError != nil {
				fmt.Fprintf(out, "  \t\tlast error\t%s\n", short(f.LastError))
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
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
