package settle

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A Join marks rows in the columns of several views of a table at once, each row in all of them or in none. It reports
// whether it has marked all of the rows. The tests' simulation has one of its own.
type Join func(ctx context.Context, views []Table, rows []*outbox.Row) (all bool, err error)

// Together is the [Join] for outbox tables. It marks nothing if a view deletes its rows.
func Together(ctx context.Context, views []Table, rows []*outbox.Row) (all bool, err error) {
	var tables []*outbox.Table
	for _, view := range views {
		tables = append(tables, view.(*outbox.Table))
	}
	if j := outbox.Together(tables); j != nil {
		return j.Settle(ctx, rows)
	}
	return false, nil
}

// together marks the rows that several destinations have accepted, each with one statement for all of them. Rows that
// are not marked by that, because a mark already existed or something prevents it, are left to be marked for each
// destination separately.
func (s *settler) together(ctx context.Context, job []*order) {
	apart := func(w *order) bool { return w.Careful || w.state >= 64 } // a set of states has 64 bits
	if len(job) < 2 || s.join == nil || slices.ContainsFunc(job, apart) {
		return
	}
	sets := map[string]uint64{} // sets of states, by the rows' identities
	first := map[string]*outbox.Row{}
	for _, w := range job {
		for _, r := range w.Accepted {
			if other := first[r.Identity()]; other == nil {
				first[r.Identity()] = r.Row
			} else if !other.Same(r.Row) { // changed between the two reads, so that each is marked by itself
				continue
			}
			sets[r.Identity()] |= 1 << w.state
		}
	}
	rows := map[uint64][]*outbox.Row{}
	for _, w := range job {
		for _, r := range w.Accepted {
			if set := sets[r.Identity()]; bits.OnesCount64(set) > 1 && bits.TrailingZeros64(set) == w.state {
				rows[set] = append(rows[set], r.Row)
			}
		}
	}
	for set, rows := range rows {
		of := slices.DeleteFunc(slices.Clone(job), func(w *order) bool { return set&(1<<w.state) == 0 })
		started := time.Now()
		all, err := s.jointly(ctx, of, rows)
		took := time.Since(started)
		for _, w := range of {
			w.Careful = w.Careful || outbox.Locked(err)
			if w.Took += took; all {
				w.Accepted = slices.DeleteFunc(w.Accepted, func(r *engine.Row) bool { return sets[r.Identity()] == set })
			}
		}
	}
}

// jointly marks rows that are in each of the orders, and reports whether it has marked all of them.
func (s *settler) jointly(ctx context.Context, of []*order, rows []*outbox.Row) (all bool, err error) {
	var views []Table
	for _, w := range of {
		views = append(views, s.states[w.state].table)
	}
	n := len(rows)
	if s.most > 0 {
		n = min(n, s.most)
	}
	all = true
	for part := range slices.Chunk(rows, n) {
		limited, cancel := context.WithTimeout(ctx, min(s.limit, asideAfter))
		started := time.Now()
		done, err := s.join(limited, views, part)
		cancel()
		for _, w := range of {
			w.stage(time.Since(started))
		}
		if all = all && done; err != nil {
			return false, err
		}
		for _, w := range of {
			s.wrote(w.state, nil)
		}
	}
	return all, nil
}
