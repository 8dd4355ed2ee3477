package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
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
	r := Report{At: time.Now().UTC(), Table: o.Views[0].Name(), Limit: outbox.CountCap, Problems: []string{}}
	for _, n := range o.Views {
		if v := n.View(); selection.Destination == "" || selection.Destination == v.Name {
			r.Destinations = append(r.Destinations, NewDestination(v.Name, v.Optional))
		}
	}
	for _, p := range o.parts(picks, patience) {
		add, err := p.ask(ctx)
		if add(&r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// everyRow is the [state] of all rows.
func everyRow(n *outbox.Table) (state string, since outbox.Column, err error) {
	return "true", n.Inserted, nil
}

// NewDestination returns the part of a destination of which nothing is known.
func NewDestination(name string, bestEffort bool) Destination {
	return Destination{Name: name, BestEffort: bestEffort, Backlog: Backlog{AtLeast: []string{}, Topics: []Topic{}}}
}

// A part of a report is what one query finds.
type part struct {
	ask func(context.Context) (add func(*Report), err error) // also with an error, add adds what was found to a report
	add func(*Report)                                        // what was found last
	err error
	due time.Time // of the next query
}

// parts returns the parts of a report about some rows and the replicas. Each of the picks may take as long as patience.
func (o *Outbox) parts(picks []pick, patience time.Duration) (all []*part) {
	for _, p := range picks {
		all = append(all, &part{ask: func(ctx context.Context) (func(*Report), error) {
			return o.count(ctx, p, patience)
		}})
	}
	return append(all, &part{ask: func(ctx context.Context) (func(*Report), error) {
		found, err := o.Ownership(ctx)
		return func(r *Report) { r.own(found) }, err
	}})
}

// own adds to a report which replicas relay, nil if that is not known.
func (r *Report) own(o *Ownership) {
	if r.Ownership = o; o == nil {
		return
	}
	for _, g := range o.Groups {
		if !g.Configured && g.Unserved() {
			r.Note(fmt.Sprintf("no replica relays %s, whose state the table keeps (%s): rows may wait for it, and "+
				"they are not counted here. Run a relay with this destination, or drop its columns if it is gone for "+
				"good", strings.Join(g.Names, ", "), cmp.Or(g.Column, "relayed_at")))
		}
	}
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
	everyRow := false
	for i, n := range o.Views {
		at := slices.IndexFunc(sets, func(s set) bool { return s.table.GroupColumn() == n.GroupColumn() })
		if at < 0 {
			at = len(sets)
			sets = append(sets, set{table: n})
		}
		sets[at].views = append(sets[at].views, i)
		sets[at].divided = len(sets[at].views) > 1
		everyRow = everyRow || takesAll(n)
	}
	if !everyRow { // rows that no destination takes are in the columns of the table
		home := slices.IndexFunc(sets, func(s set) bool { return s.table.View().Columns == nil })
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
		fmt.Fprintf(&cases, " when %s then %d", o.Views[i].Taken, i)
	}
	for i := range o.Views {
		// A destination with other columns has a copy of its own.
		if n := o.Views[i]; n.Came == "" && !slices.Contains(s.views, i) {
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

// count counts the rows of a pick for each of its destinations. What was not counted because it took too long, or
// waited too long for a lock on the table, is a problem of the report and no error.
func (o *Outbox) count(ctx context.Context, p pick, patience time.Duration) (func(*Report), error) {
	n := p.set.table
	asked := outbox.Takers{
		SQL: o.taker(p.set), Parameters: *p.values, Divided: p.set.divided,
		Numbers: append([]int{untaken}, p.set.views...),
	}
	if p.chosen != "" { // the other rows are looked at too, so that a selection does not change the cost
		asked.SQL = fmt.Sprintf("case when true%s then %s else %d end", p.chosen, asked.SQL, outbox.NotCounted)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tally, err := n.Tally(limited, asked)
	if ctx.Err() == nil && (outbox.TimedOut(err) || outbox.Locked(err)) {
		err = nil
	}
	return func(r *Report) {
		if err != nil {
			return
		}
		for _, i := range p.set.views {
			at := slices.IndexFunc(r.Destinations, func(d Destination) bool { return d.Name == o.nameOf(i) })
			r.Destinations[at].Backlog = tally[i]
		}
		rest := tally[untaken]
		if len(rest.Topics) > 0 {
			r.Untaken = cmp.Or(r.Untaken, &rest)
		}
		// A state that was not counted is never shown as zero.
		for _, state := range outbox.States() {
			if rest.Count(state) == nil {
				r.Note(fmt.Sprintf("%s rows were not counted: no index makes it cheap (`outbox-relay doctor` prints "+
					"one), or it took longer than %v", state, patience))
			}
		}
	}, err
}

// Note adds a problem, once: each state and destination may lack the same index.
func (r *Report) Note(problem string) {
	if !slices.Contains(r.Problems, problem) {
		r.Problems = append(r.Problems, problem)
	}
}
