package settle

import (
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A Join returns the table of which Settle marks rows in the columns of several views at once, with the rows of the
// first one. The tests' simulation has one of its own.
type Join func(views []Table) Table

// Together is the [Join] for outbox tables. One update sets the columns of all of them.
func Together(views []Table) Table {
	var tables []*outbox.Table
	for _, view := range views {
		tables = append(tables, view.(*outbox.Table))
	}
	return outbox.Together(tables)
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
