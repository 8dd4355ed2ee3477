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

// simTogether returns the table that marks rows in the columns of several destinations at once.
func simTogether(views []settle.Table) settle.Table {
	j := simJoint{Table: views[0]}
	for _, view := range views {
		j.views = append(j.views, view.(*simView).tableView)
	}
	return j
}

type simJoint struct {
	settle.Table
	views []tableView
}

func (j simJoint) Settle(ctx context.Context, rows []*outbox.Row, _ bool) (map[string]error, error) {
	var tables []*simTable
	for _, view := range j.views {
		switch t := view.(type) {
		case *session:
			if t.cut.Load() {
				return nil, errSimDown
			}
			tables = append(tables, t.simTable)
		case *simTable:
			tables = append(tables, t)
		}
	}
	first := tables[0]
	trouble, err := first.wait(ctx)
	if err != nil {
		return nil, err
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	ids, unwritten := idsOf(rows), map[string]error{}
	for _, t := range tables {
		switch {
		case t.down:
			return nil, errSimDown
		case slices.ContainsFunc(ids, func(id string) bool { return t.locked[id] }):
			return nil, errSimLocked
		case slices.Contains(ids, t.guarded):
			return nil, errSimRejected
		}
	}
	for _, t := range tables {
		for _, id := range ids {
			if t.inert[id] && !t.rows[id].relayed {
				unwritten[id] = errSimInert
			}
		}
	}
	for _, t := range tables {
		free := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			return unwritten[id] != nil || t.rows[id].relayed
		})
		t.joined += len(free)
		_, _ = t.mark(free)
	}
	return unwritten, first.answer(ctx, trouble, nil)
}
