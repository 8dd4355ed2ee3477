package dispatch

import "github.com/outbox-relay/outbox-relay/internal/outbox"

// stubTable is a table for a dispatch, without rows. With textIDs, only the database knows the order of its ids.
type stubTable struct{ unordered, byKey, ties, textIDs bool }

func (t *stubTable) Before(p, q outbox.Position) bool {
	if t.textIDs {
		return p.Ordinal < q.Ordinal
	}
	return p.Before(q)
}
func (t *stubTable) Ordinal() bool     { return !t.unordered }
func (t *stubTable) Unique() bool      { return !t.ties }
func (*stubTable) Ranked() bool        { return false }
func (t *stubTable) KeyIndexed() bool  { return t.byKey }
func (t *stubTable) KeyFiltered() bool { return true }
func (*stubTable) KeepsFailures() bool { return true }
func (*stubTable) KeepsAttempts() bool { return true }
func (*stubTable) KeepsErrors() bool   { return true }

// textIDs makes the table one with equal order values and text ids.
func (d *Dispatch) textIDs() {
	d.Table = &stubTable{ties: true, textIDs: true}
	for i := range d.lanes {
		d.lanes[i].before = d.Table.Before
	}
}
