package relay

import (
	"context"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// newCopies makes the schedule of a destination with columns of its own, which takes the rows of another schedule.
// Events of the process and of the rows are left to that schedule.
func newCopies(of *schedule) *schedule {
	r, table := of.r, of.table
	table.txid = r.IntN(2) == 0
	s := newSim(of.sim.t)
	s.table, s.limits, s.interval, s.owner = table.also(), of.limits, of.interval, nil
	c := &schedule{
		sim: s, t: of.t, r: r, copies: true, ambiguous: of.ambiguous, late: of.late, dense: of.dense, refuses: of.refuses,
		age:   of.age,
		block: r.IntN(3) == 0, parts: r.IntN(2) == 0,
		deadens: of.deadens, alters: of.alters, release: func() {},
	}
	s.table.took, s.table.ordinal, s.table.txid = table.took, table.ordinal, table.txid
	s.table.textIDs = table.textIDs
	s.table.delays, s.table.readsDue, s.table.ranked = table.delays, table.readsDue, table.ranked
	s.table.byKey, s.table.keepsFailures, s.table.keepsAttempts = r.IntN(2) == 0, r.IntN(6) > 0, r.IntN(6) > 0
	s.Delay(time.Duration(r.IntN(10000)) * time.Microsecond)
	if c.parts {
		s.Partition("a", simPartitions)
	}
	c.t.Logf("copies: block %v, keeps failures %v and attempts %v, txid %v", c.block, s.table.keepsFailures,
		s.table.keepsAttempts,
		s.table.txid)
	return c
}

// columnsOf returns the table with the columns in which it keeps a destination's state.
func columnsOf(table tableView, d *Destination) tableView {
	if d.Columns == nil {
		return table
	}
	switch t := table.(type) {
	case *session:
		own := &session{simTable: t.own, cut: t.cut}
		own.open()
		return own
	case *simTable:
		return t.own
	}
	panic("a table of which there is no other view")
}

// simTogether marks rows in the columns of several destinations at once.
func simTogether(ctx context.Context, views []settle.Table, rows []*outbox.Row) (all bool, err error) {
	var tables []*simTable
	for _, view := range views {
		switch t := view.(*simView).tableView.(type) {
		case *session:
			if t.cut.Load() {
				return false, errSimDown
			}
			tables = append(tables, t.simTable)
		case *simTable:
			tables = append(tables, t)
		}
	}
	first := tables[0]
	trouble, err := first.wait(ctx)
	if err != nil {
		return false, err
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	ids, marked := idsOf(rows), map[string]bool{}
	for _, t := range tables {
		switch {
		case t.down:
			return false, errSimDown
		case slices.ContainsFunc(ids, func(id string) bool { return t.locked[id] }):
			return false, errSimLocked
		case slices.Contains(ids, t.guarded):
			return false, errSimRejected
		}
		for _, id := range ids {
			marked[id] = marked[id] || t.rows[id].relayed || t.inert[id]
		}
	}
	free := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return marked[id] })
	for _, t := range tables {
		t.joined += len(free)
		_, _ = t.mark(free)
	}
	return len(free) == len(ids), first.answer(ctx, trouble, nil)
}
