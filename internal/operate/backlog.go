package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// ReportOf returns what the table knows of the rows of a selection, among those that are looked at. It looks at a
// bounded number of rows in each state at most once, so it costs the same at ten rows and at ten million. The rows of a
// set of destinations may take as long as patience; counts that could not be taken are listed among the problems. The
// error is about the database; the report then holds what was found before it.
func (o *Outbox) ReportOf(ctx context.Context, selection Selection, patience time.Duration) (Report, error) {
	picks, err := o.pick(selection, everyRow)
	if err != nil {
		return Report{}, err
	}
	r := Report{At: time.Now().UTC(), Table: o.Views[0].Table.Name(), Limit: outbox.CountCap, Problems: []string{}}
	for i, v := range o.Views {
		if slices.ContainsFunc(picks, func(p pick) bool { return slices.Contains(p.set.views, i) }) {
			r.Destinations = append(r.Destinations, NewDestination(v.Name, v.Optional))
		}
	}
	for _, p := range picks {
		if err := o.count(ctx, p, &r, patience); err != nil && (ctx.Err() != nil || !unanswered(err)) {
			return r, err
		}
	}
	return r, o.reportOwnership(ctx, &r)
}

// everyRow is the state of all rows; see [Outbox.pick].
func everyRow(n *outbox.Table) (state string, since outbox.Column, err error) {
	return "true", n.Inserted, nil
}

// NewDestination returns the part of a destination of which nothing is known.
func NewDestination(name string, bestEffort bool) Destination {
	return Destination{Name: name, BestEffort: bestEffort, Backlog: newBacklog()}
}

// reportOwnership adds to a report which replicas relay.
func (o *Outbox) reportOwnership(ctx context.Context, r *Report) (err error) {
	if r.Ownership, err = o.Ownership(ctx); err != nil {
		return err
	}
	for _, g := range r.Ownership.Groups {
		if !g.Configured && g.Unserved() {
			r.Note(fmt.Sprintf("no replica relays %s, whose state the table keeps (%s): rows may wait for it, and "+
				"they are not counted here. Run a relay with this destination, or drop its columns if it is gone for "+
				"good", strings.Join(g.Destinations, ", "), cmp.Or(g.Column, "relayed_at")))
		}
	}
	return nil
}

// base returns the names of the table for a destination that takes rows as they are inserted.
func (o *Outbox) base() *outbox.Table {
	for _, v := range o.Views {
		if n := v.Table; n.Came == "" {
			return n
		}
	}
	return o.Views[0].Table
}

// A set is several destinations that keep their state in the same columns and divide the rows. A statement about states
// is sent once for each set: a row has one state there, whichever of the destinations takes it.
type set struct {
	table   *outbox.Table // of the first destination
	views   []int         // indexes of Outbox.Views
	divided bool          // a row may belong to another of these views, or to none
}

// sets groups the views by the columns of their state.
func (o *Outbox) sets() []set {
	var sets []set
	home, everyRow := -1, false
	for i, v := range o.Views {
		n := v.Table
		at := slices.IndexFunc(sets, func(s set) bool { return s.table.GroupColumn() == n.GroupColumn() })
		if at < 0 {
			at = len(sets)
			sets = append(sets, set{table: n})
		}
		sets[at].views = append(sets[at].views, i)
		sets[at].divided = len(sets[at].views) > 1
		everyRow = everyRow || n.Came == "" && n.Taken == pattern.Always
		if v.Columns == nil && home < 0 {
			home = at
		}
	}
	if !everyRow { // rows that no destination takes are in the columns of the table
		sets[max(home, 0)].divided = true
	}
	return sets
}

// taker is the expression for the index of the view that takes a row.
func (o *Outbox) taker(s set) string {
	if !s.divided {
		return fmt.Sprint(s.views[0])
	}
	var cases strings.Builder
	for _, i := range s.views {
		fmt.Fprintf(&cases, " when %s then %d", o.Views[i].Table.Taken, i)
	}
	for i := range o.Views {
		// A destination with other columns has a copy of its own.
		if n := o.Views[i].Table; n.Came == "" && !slices.Contains(s.views, i) {
			fmt.Fprintf(&cases, " when %s then %d", n.Taken, outbox.NotCounted)
		}
	}
	nobody := untaken
	if o.Strangers() != nil {
		nobody = outbox.NotCounted // a destination that is not configured here may take it
	}
	return fmt.Sprintf("case%s else %d end", cases.String(), nobody)
}

// untaken is the taker of rows that no destination takes.
const untaken = -1

// count fills the backlogs of the destinations of a pick. What cannot be counted becomes a problem of the report, also
// if the error is that it took too long.
func (o *Outbox) count(ctx context.Context, p pick, r *Report, patience time.Duration) error {
	n := p.set.table
	asked := outbox.Takers{SQL: o.taker(p.set), Parameters: p.values, Divided: p.set.divided}
	if p.chosen != "" { // the other rows are looked at too, so that a selection does not change the cost
		asked.SQL = fmt.Sprintf("case when true%s then %s else %d end", p.chosen, asked.SQL, outbox.NotCounted)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tally, failure := n.Tally(limited, asked)
	if failure != nil && !unanswered(failure) {
		return failure
	}
	takers := append(slices.Clone(p.set.views), untaken)
	backlogs := make([]Backlog, len(takers))
	for i := range backlogs {
		backlogs[i] = newBacklog()
	}
	// A state that was counted is reported even if a later one took too long; a state that was not is never shown as
	// zero.
	for _, state := range []outbox.State{outbox.Due, outbox.Scheduled, outbox.Failed} {
		switch counted := tally[state]; {
		case counted != nil:
			for i, taker := range takers {
				backlogs[i].add(state, taker, counted)
			}
		case state == outbox.Failed && !n.FailedIndexed():
			r.Note(fmt.Sprintf("failed rows were not counted, since no index makes it cheap: create index "+
				"concurrently on %s (%s, %s) where %[2]s is not null", n.Quoted(), n.Failed.Name, n.ID.Name))
		case state != outbox.Failed && !n.PendingIndexed():
			r.Note("pending rows were not counted, since no index makes it cheap: `outbox-relay doctor` prints the " +
				"index")
		default:
			r.Note(fmt.Sprintf("the %s rows were not counted: it took longer than %v", state, patience))
		}
	}
	for i, taker := range takers {
		b := &backlogs[i]
		if b.finish(); taker != untaken {
			r.destination(o.Views[taker].Name).Backlog = *b
		} else if len(b.Topics) > 0 {
			r.Untaken = b
		}
	}
	return failure
}

// unanswered reports whether a count was given up because it took too long, or waited too long for a lock on the table.
func unanswered(err error) bool { return outbox.TimedOut(err) || outbox.Locked(err) }

// destination returns the part of a destination, which it adds if there is none.
func (r *Report) destination(name string) *Destination {
	at := slices.IndexFunc(r.Destinations, func(d Destination) bool { return d.Name == name })
	if at < 0 {
		at = len(r.Destinations)
		r.Destinations = append(r.Destinations, NewDestination(name, false))
	}
	return &r.Destinations[at]
}

// take takes over what another report found.
func (r *Report) take(found *Report) {
	for _, d := range found.Destinations {
		r.destination(d.Name).Backlog = d.Backlog
	}
	r.Untaken, r.Ownership = cmp.Or(r.Untaken, found.Untaken), cmp.Or(r.Ownership, found.Ownership)
	r.Size = cmp.Or(r.Size, found.Size)
	for _, problem := range found.Problems {
		r.Note(problem)
	}
}

// Note adds a problem, once: each state and destination may lack the same index.
func (r *Report) Note(problem string) {
	if !slices.Contains(r.Problems, problem) {
		r.Problems = append(r.Problems, problem)
	}
}

func newBacklog() Backlog {
	return Backlog{AtLeast: []string{}, Topics: []Topic{}, places: map[string]int{}}
}

// number returns the count of rows in a state.
func (b *Backlog) number(state outbox.State) **int64 {
	switch state {
	case outbox.Due:
		return &b.Due
	case outbox.Scheduled:
		return &b.Scheduled
	default:
		return &b.Failed
	}
}

// add adds the rows of one taker in a state.
func (b *Backlog) add(state outbox.State, taker int, counted *outbox.Tallied) {
	sum, retrying := new(int64), new(int64)
	if *b.number(state) = sum; state == outbox.Due {
		b.Retrying, b.OldestAgeSeconds = retrying, counted.Oldest(taker)
	}
	if counted.Full {
		b.AtLeast = append(b.AtLeast, string(state))
	}
	for _, l := range counted.Lines {
		if l.Taker != taker {
			continue
		}
		at, known := b.places[l.Topic]
		if !known {
			at = len(b.Topics)
			b.places[l.Topic] = at
			b.Topics = append(b.Topics, Topic{Topic: l.Topic})
		}
		t := &b.Topics[at]
		*sum += l.Rows
		switch state {
		case outbox.Due:
			*retrying += l.Retrying
			t.Due, t.Retrying, t.OldestAgeSeconds = t.Due+l.Rows, t.Retrying+l.Retrying, l.OldestSeen
		case outbox.Scheduled:
			t.Scheduled += l.Rows
		default:
			t.Failed += l.Rows
		}
	}
}

// Gauge returns the count of rows in a state as a metric: at most the limit, and nil if it is not known, also because
// too many rows of other destinations are in the way.
func (b *Backlog) Gauge(state outbox.State) *int64 {
	n := *b.number(state)
	if n == nil || *n < outbox.CountCap && slices.Contains(b.AtLeast, string(state)) {
		return nil
	}
	return new(min(*n, outbox.CountCap))
}

// mostTopics is how many topics of a destination a report lists.
const mostTopics = 200

// finish sorts the topics, and leaves out those beyond mostTopics.
func (b *Backlog) finish() {
	slices.SortFunc(b.Topics, func(x, y Topic) int {
		return cmp.Or(cmp.Compare(y.Failed, x.Failed), cmp.Compare(y.Due, x.Due), cmp.Compare(y.Scheduled, x.Scheduled),
			cmp.Compare(x.Topic, y.Topic))
	})
	b.MoreTopics += max(len(b.Topics)-mostTopics, 0)
	b.Topics = b.Topics[:min(len(b.Topics), mostTopics)]
}
