package settle

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A Join marks rows in the columns of several views of a table at once, each row in all of them or in none. It reports
// whether it has marked all of the rows; if not, or with an error, each row is marked for each destination again. The
// tests' simulation has one of its own.
type Join func(ctx context.Context, views []Table, rows []*outbox.Row) (all bool, err error)

// Together is the [Join] for outbox tables. One update sets the columns of all of them.
func Together(ctx context.Context, views []Table, rows []*outbox.Row) (all bool, err error) {
	var tables []*outbox.Table
	for _, view := range views {
		tables = append(tables, view.(*outbox.Table))
	}
	return outbox.Together(ctx, tables, rows)
}

const (
	// Marks for several destinations at once that took longJoin are followed by a period without any, which is
	// apartShare times as long: a trigger on the columns of one destination, perhaps, would slow down the others. With
	// one that sleeps for 30 s, the other destinations had relayed half as many rows without such periods.
	longJoin   = 500 * time.Millisecond
	apartShare = 20
)

// jointly begins to mark the rows that several destinations have accepted, which lie there at the same time, each with
// one statement for all of them: a second update of a row in another statement would write its whole version again.
// Rows go together if the same set of destinations has accepted them. Nothing waits for another destination's answer.
// The caller holds mu.
func (s *Settlement) jointly(ready []int) {
	// Sets of states are bits of a number, so that the sixty-fifth set of columns is marked by itself. Locks and what
	// failed together once (careful, too) are reasons to mark alone.
	joins := func(g gathered) bool { return !g.careful && g.Refused == nil }
	sets := map[string]uint64{} // sets of states, by the rows' identities
	first := map[string]*engine.Row{}
	for _, state := range ready {
		for _, g := range s.states[state].gathered {
			id := g.Identity()
			if first[id] == nil {
				first[id] = g.Row
			}
			// If it was changed between the two reads, each is marked by itself.
			if joins(g) && first[id].Same(g.Row.Row) {
				sets[id] |= 1 << state
			}
		}
	}
	for _, set := range slices.Compact(slices.Sorted(maps.Values(sets))) {
		if bits.OnesCount64(set) < 2 {
			continue
		}
		o := &order{}
		for _, state := range ready {
			if set&(1<<state) != 0 {
				s.takeOut(o, state, func(g gathered) bool { return joins(g) && sets[g.Identity()] == set })
			}
		}
		s.begin(o)
	}
}

// together marks the rows of an order in all of its sets of columns, and reports whether it has marked all of them. If
// not, because a mark already existed or something prevents it, they are marked for each destination separately. It
// halves nothing, repeats nothing, and gives each statement two seconds: marking by itself does all of that. Marking
// apart is always right, so any doubt leads there, and costs a statement more.
func (s *Settlement) together(ctx context.Context, o *order) (all bool) {
	var views []Table
	for _, state := range o.states {
		views = append(views, s.states[state].table)
	}
	var rows []*outbox.Row
	for from, share := range o.shares {
		if from.state == o.states[0] { // the other shares have the same rows
			rows = append(rows, read(share)...)
		}
	}
	all = true
	n := s.size(o, len(rows))
	for part := range slices.Chunk(rows, n) {
		limited, cancel := context.WithTimeout(ctx, min(s.limit, asideAfter))
		started := time.Now()
		done, err := s.join(limited, views, part)
		cancel()
		took := time.Since(started)
		o.stage(took)
		if took >= longJoin {
			s.mu.Lock()
			s.apart = time.Now().Add(apartShare * took)
			s.mu.Unlock()
		}
		if all = all && done; err != nil {
			return false
		}
		for _, state := range o.states {
			s.wrote(state, nil)
		}
	}
	return all
}
