package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// countLimit is where counting stops.
const countLimit = outbox.CountCap

// sharedLimit is how many rows are examined where several destinations divide them.
const sharedLimit = 2 * countLimit

// Report returns what the table knows of its rows. It examines a bounded number of rows in each state at most once, so it costs
// the same at ten rows and at ten million. A statement may take as long as patience; counts that could not be taken are listed
// among the problems. The error is about the database; the report then holds what was found before it.
func (o *Outbox) Report(ctx context.Context, patience time.Duration) (Report, error) {
	return o.ReportOf(ctx, Selection{}, patience)
}

// ReportOf is Report restricted to the rows of a selection, among those that Report examines.
func (o *Outbox) ReportOf(ctx context.Context, selection Selection, patience time.Duration) (Report, error) {
	chosen, err := o.chosen(selection)
	if err != nil {
		return Report{}, err
	}
	r := Report{At: time.Now().UTC(), Table: o.Views[0].Table.Name(), Limit: countLimit, Problems: []string{}}
	for _, v := range o.Views {
		r.Destinations = append(r.Destinations, Destination{Name: v.Destination, BestEffort: v.Optional, Backlog: newBacklog()})
	}
	for _, set := range chosen {
		if err := o.count(ctx, set, selection, &r, patience); err != nil {
			return r, err
		}
	}
	r.Destinations = slices.DeleteFunc(r.Destinations, func(d Destination) bool {
		return !slices.ContainsFunc(chosen, func(s set) bool {
			return slices.ContainsFunc(s.views, func(i int) bool { return o.Views[i].Destination == d.Name })
		})
	})
	for i := range r.Destinations {
		r.Destinations[i].finish()
	}
	if r.Untaken != nil {
		r.Untaken.finish()
	}
	if r.Ownership, err = o.Ownership(ctx); err != nil {
		return r, err
	}
	for _, g := range r.Ownership.Groups {
		if !g.Configured && g.Unserved() {
			r.Problems = append(r.Problems, fmt.Sprintf("no replica relays %s, whose state the table keeps (%s): rows may wait "+
				"for it, and they are not counted here. Run a relay with this destination, or drop its columns if it is gone for good",
				strings.Join(g.Destinations, ", "), cmp.Or(g.Column, "relayed_at")))
		}
	}
	return r, nil
}

// base returns the names of the table for a destination that takes rows as they are inserted.
func (o *Outbox) base() outbox.Names {
	for _, v := range o.Views {
		if n := v.Table.Names(); n.Came == "" {
			return n
		}
	}
	return o.Views[0].Table.Names()
}

// A set is several destinations that keep their state in the same columns and divide the rows.
type set struct {
	names   outbox.Names // of the first destination
	views   []int        // indexes of Outbox.Views
	divided bool         // a row may belong to another of these views, or to none
}

// sets groups the views by the columns of their state.
func (o *Outbox) sets() []set {
	var sets []set
	home, everyRow := -1, false
	for i, v := range o.Views {
		n := v.Table.Names()
		at := slices.IndexFunc(sets, func(s set) bool { return s.names.Pending == n.Pending && s.names.Relayed.Name == n.Relayed.Name })
		if at < 0 {
			at = len(sets)
			sets = append(sets, set{names: n})
		}
		sets[at].views = append(sets[at].views, i)
		sets[at].divided = len(sets[at].views) > 1
		everyRow = everyRow || n.Came == "" && n.Taken == pattern.Always
		if v.Shared && home < 0 {
			home = at
		}
	}
	if !everyRow { // rows that no destination takes are in the columns of the table
		sets[max(home, 0)].divided = true
	}
	return sets
}

// counted is one line of backlog.sql.
type counted struct {
	topic         *string
	taker         int
	rows, retried int64
	age           *float64
}

// count fills the backlogs of the destinations of a set.
func (o *Outbox) count(ctx context.Context, s set, selection Selection, r *Report, patience time.Duration) error {
	n := s.names
	base := map[string]string{"table": n.Table, "topic": n.Topic.Name, "retried": "false", "age": "null::interval", "ordering": n.Ordering}
	limit, pending := countLimit, n.Pending
	if base["taker"] = o.taker(s); s.divided {
		limit = sharedLimit
	} else {
		pending += o.taken(s.views[0]) // an index may be for its rows only
	}
	values := parameters{0}
	condition, err := selection.condition(n, n.Inserted, &values)
	if err != nil {
		return err
	}
	if condition != "" { // the other rows are examined too, so that a selection does not change the cost
		base["taker"] = fmt.Sprintf("case when true%s then %s else %d end", condition, base["taker"], left)
	}
	values[0] = limit
	due := base
	if n.LastError.Has() {
		due = maps.Clone(base)
		due["retried"] = n.LastError.Name + " is not null"
	}
	for _, kind := range []struct {
		name    string
		missing string // why it cannot be counted; empty if it can
		names   map[string]string
		state   string
		add     func(b *Backlog, t *Topic, c counted)
		zero    func(b *Backlog)
	}{
		{
			name: "due", names: with(due, "age", "now() - "+n.DueAt()), state: pending + n.Arrived(), missing: missingPending(n),
			zero: func(b *Backlog) { b.Due, b.Retrying, b.OldestAgeSeconds = new(int64), new(int64), new(float64) },
			add: func(b *Backlog, t *Topic, c counted) {
				*b.Due, t.Due = *b.Due+c.rows, t.Due+c.rows
				*b.Retrying, t.Retrying = *b.Retrying+c.retried, t.Retrying+c.retried
				if c.age != nil {
					age := max(*c.age, 0)
					t.OldestAgeSeconds, *b.OldestAgeSeconds = &age, max(*b.OldestAgeSeconds, age)
				}
			},
		},
		{
			name: "scheduled", names: base, state: pending + n.Scheduled(), missing: missingPending(n),
			zero: func(b *Backlog) { b.Scheduled = new(int64) },
			add:  func(b *Backlog, t *Topic, c counted) { *b.Scheduled, t.Scheduled = *b.Scheduled+c.rows, c.rows },
		},
		{
			name: "failed", names: with(with(base, "ordering", n.Failed.Name+" desc"), "taker", undiscarded(n, base["taker"])),
			state: o.failedState(s), missing: missingFailed(n),
			zero: func(b *Backlog) { b.Failed = new(int64) },
			add:  func(b *Backlog, t *Topic, c counted) { *b.Failed, t.Failed = *b.Failed+c.rows, c.rows },
		},
	} {
		if kind.missing != "" {
			if !slices.Contains(r.Problems, kind.missing) { // each state and destination lacks the same index
				r.Problems = append(r.Problems, kind.missing)
			}
			continue
		}
		if kind.state == "" { // no row can be in this state
			for _, i := range s.views {
				kind.zero(&r.Destinations[i].Backlog)
			}
			continue
		}
		lines, err := o.look(ctx, with(kind.names, "state", kind.state), values, patience)
		if timeout(err) {
			r.Problems = append(r.Problems, fmt.Sprintf("the %s rows were not counted: it took longer than %v", kind.name, patience))
			continue
		}
		if err != nil {
			return fmt.Errorf("count %s rows: %w", kind.name, err)
		}
		for _, i := range s.views {
			kind.zero(&r.Destinations[i].Backlog)
		}
		looked := int64(0)
		for _, c := range lines {
			looked += c.rows
			if c.taker == left {
				continue
			}
			b := r.backlog(c.taker)
			if b == r.Untaken && b.Due == nil {
				*b = newBacklog()
				b.Due, b.Retrying, b.Scheduled, b.Failed, b.OldestAgeSeconds = new(int64), new(int64), new(int64), new(int64), new(float64)
			}
			kind.add(b, b.topic(c.topic), c)
		}
		if looked == int64(limit) {
			for _, i := range s.views {
				r.Destinations[i].AtLeast = append(r.Destinations[i].AtLeast, kind.name)
			}
		}
	}
	return nil
}

// Takers of rows that no destination takes.
const (
	untaken = -1
	left    = -2 // a row that does not count, e.g. a discarded one
)

// undiscarded leaves out failed rows that were discarded and kept. They are examined too, so that their number does not change
// the cost.
func undiscarded(n outbox.Names, taker string) string {
	if !n.Relayed.Has() {
		return taker
	}
	return fmt.Sprintf("case when %s is null then %s else %d end", n.Relayed.Name, taker, left)
}

// taker is the expression for the index of the view that takes a row.
func (o *Outbox) taker(s set) string {
	if !s.divided {
		return fmt.Sprint(s.views[0])
	}
	var cases strings.Builder
	for _, i := range s.views {
		fmt.Fprintf(&cases, " when %s then %d", o.Views[i].Table.Names().Taken, i)
	}
	for i := range o.Views {
		if n := o.Views[i].Table.Names(); n.Came == "" && !slices.Contains(s.views, i) { // the destination has a copy of its own
			fmt.Fprintf(&cases, " when %s then %d", n.Taken, left)
		}
	}
	nobody := untaken
	if o.Strangers() != nil {
		nobody = left // a destination that is not configured here may take it
	}
	return fmt.Sprintf("case%s else %d end", cases.String(), nobody)
}

// taken is the condition that a view takes a row, to be added to others.
func (o *Outbox) taken(view int) string {
	if taken := o.Views[view].Table.Names().Taken; taken != pattern.Always {
		return " and " + taken
	}
	return ""
}

// failedState is the condition for failed rows, including discarded ones; empty if the table keeps none.
func (o *Outbox) failedState(s set) string {
	if !s.names.Failed.Has() {
		return ""
	}
	state := s.names.Failed.Name + " is not null"
	if !s.divided {
		state += o.taken(s.views[0])
	}
	return state
}

func missingPending(n outbox.Names) string {
	if n.PendingIndexed {
		return ""
	}
	return "pending rows were not counted, since no index makes it cheap: `outbox-relay doctor` prints the index"
}

func missingFailed(n outbox.Names) string {
	if n.FailedIndexed || !n.Failed.Has() {
		return ""
	}
	return fmt.Sprintf("failed rows were not counted, since no index makes it cheap: create index concurrently on %s (%s, %s) where "+
		"%[2]s is not null", n.Table, n.Failed.Name, n.ID.Name)
}

// look runs backlog.sql.
func (o *Outbox) look(ctx context.Context, names map[string]string, values parameters, patience time.Duration) (lines []counted,
	err error,
) {
	err = within(ctx, o.Pool, limits{statement: patience, inOrder: true}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql.Text("backlog.sql", names), values...)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (counted, error) {
			var c counted
			err := row.Scan(&c.topic, &c.taker, &c.rows, &c.retried, &c.age)
			return c, err
		})
		return err
	})
	return lines, err
}

// timeout reports whether a statement was ended by its limit.
func timeout(err error) bool {
	const queryCanceled = "57014"
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == queryCanceled
}

func with(names map[string]string, name, value string) map[string]string {
	names = maps.Clone(names)
	names[name] = value
	return names
}

// backlog returns the backlog in which the rows of a destination are counted.
func (r *Report) backlog(view int) *Backlog {
	if view != untaken {
		return &r.Destinations[view].Backlog
	}
	if r.Untaken == nil {
		r.Untaken = &Backlog{}
	}
	return r.Untaken
}

func newBacklog() Backlog {
	return Backlog{AtLeast: []string{}, Topics: []Topic{}, places: map[string]int{}}
}

// topic returns the part of one topic. A NULL topic counts as an empty one.
func (b *Backlog) topic(name *string) *Topic {
	topic := ""
	if name != nil {
		topic = *name
	}
	at, known := b.places[topic]
	if !known {
		at = len(b.Topics)
		b.places[topic] = at
		b.Topics = append(b.Topics, Topic{Topic: topic})
	}
	return &b.Topics[at]
}

// mostTopics is how many topics of a destination a report lists.
const mostTopics = 200

// finish sorts the topics, and leaves out those beyond mostTopics.
func (b *Backlog) finish() {
	slices.SortFunc(b.Topics, func(x, y Topic) int {
		return cmp.Or(cmp.Compare(y.Failed, x.Failed), cmp.Compare(y.Due, x.Due), cmp.Compare(y.Scheduled, x.Scheduled),
			cmp.Compare(x.Topic, y.Topic))
	})
	b.MoreTopics = max(len(b.Topics)-mostTopics, 0)
	b.Topics = b.Topics[:min(len(b.Topics), mostTopics)]
}

// Problem adds to the report what could not be determined.
func (r *Report) Problem(what string, err error) {
	r.Problems = append(r.Problems, what+": "+errtext.Line(err))
}
