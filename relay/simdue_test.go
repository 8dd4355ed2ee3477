package relay

import (
	"cmp"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
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

// inOrder reports whether reads in table order return the row when it is due. The caller holds mu, here and in the functions
// below.
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

// ordered returns the open rows after the query's position, in the order in which the query reads them.
func (t *simTable) ordered(q outbox.Query) []*simRow {
	var order func(a, b *simRow) int
	switch {
	case q.Due:
		order = func(a, b *simRow) int {
			return cmp.Or(a.available.Compare(b.available), cmp.Compare(a.ordinal, b.ordinal))
		}
	case t.ranked && !q.Unranked && q.IDs == nil:
		order = func(a, b *simRow) int { return cmp.Or(cmp.Compare(b.priority, a.priority), t.compare(a, b)) }
	default:
		rows := t.open[t.from(q):]
		if q.After.IsZero() {
			return rows
		}
		return rows[sortedAfter(rows, func(r *simRow) bool { return !q.After.Before(t.position(r)) }):]
	}
	rows := slices.Clone(t.open)
	if q.Due {
		back := time.Time{}
		if q.Back > 0 {
			back = time.Now().Add(-q.Back)
		}
		rows = slices.DeleteFunc(rows, func(r *simRow) bool {
			return r.available.IsZero() || r.available.Before(back) || r.available.After(time.Now())
		})
	}
	slices.SortStableFunc(rows, order)
	if after := t.places[q.After]; !q.After.IsZero() {
		rows = rows[sortedAfter(rows, func(r *simRow) bool { return order(r, after) <= 0 }):]
	}
	return rows
}

// sortedAfter returns how many of the first rows are passed.
func sortedAfter(rows []*simRow, passed func(*simRow) bool) int {
	n, _ := slices.BinarySearchFunc(rows, true, func(r *simRow, _ bool) int {
		if passed(r) {
			return -1
		}
		return 1
	})
	return n
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
