package relay

import (
	"cmp"
	"slices"
	"time"
)

// insertLater commits a row that becomes due after the given time.
func (t *simTable) insertLater(ordinal int64, id, key, topic string, after time.Duration) {
	t.commit(t.begin(), func() {
		t.add(ordinal, id, key, topic)
		t.rows[id].available = time.Now().Add(after)
	})
}

// insertRanked commits a row with a priority.
func (t *simTable) insertRanked(ordinal int64, id, key, topic string, priority int64) {
	t.commit(t.begin(), func() {
		t.add(ordinal, id, key, topic)
		t.rows[id].priority = priority
	})
}

// inOrder reports whether reads in table order return the row when it is due. The caller holds mu, here and in the
// functions below.
func (t *simTable) inOrder(r *simRow) bool { return !t.ReadsDue() || r.available.IsZero() }

// nextDue returns how long it is until the next row becomes due.
func (t *simTable) nextDue() (next time.Duration) {
	for _, r := range t.open {
		if until := time.Until(r.available); until > 0 && t.ReadsDue() && (next == 0 || until < next) {
			next = until
		}
	}
	return next
}

// ordered returns the open rows in the order in which reads return them, and that order.
func (t *simTable) ordered(due bool) (rows []*simRow, order func(a, b *simRow) int) {
	switch {
	case due:
		order = func(a, b *simRow) int {
			return cmp.Or(a.available.Compare(b.available), cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.id, b.id))
		}
	case t.ranked:
		order = t.rank
	default:
		return t.open, t.compare
	}
	for _, r := range t.open {
		if !due || !t.inOrder(r) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, order)
	return rows, order
}

// rank compares two rows by priority, and then in table order.
func (t *simTable) rank(a, b *simRow) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), t.compare(a, b))
}

// compare compares two rows in table order.
func (t *simTable) compare(a, b *simRow) int {
	switch p, q := t.position(a), t.position(b); {
	case p.Before(q):
		return -1
	case q.Before(p):
		return 1
	default:
		return 0
	}
}
