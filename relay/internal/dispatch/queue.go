package dispatch

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// queue holds the rows that wait for one worker, in the order in which they are published.
type queue struct {
	before func(p, q outbox.Position) bool // in table order
	rows   []*Row
	head   int
}

func (q *queue) len() int { return len(q.rows) - q.head }

func (q *queue) push(r *Row) {
	if q.head > len(q.rows)/2 || q.head == len(q.rows) { // otherwise a queue that is never empty would grow forever
		n := copy(q.rows, q.rows[q.head:])
		clear(q.rows[n:])
		q.rows, q.head = q.rows[:n], 0
	}
	q.rows = append(q.rows, r)
}

// first returns the first row.
func (q *queue) first() *Row { return q.rows[q.head] }

// pop removes and returns the first row.
func (q *queue) pop() *Row {
	r := q.rows[q.head]
	q.rows[q.head] = nil
	q.head++
	return r
}

// unpop puts rows back in front, in their order. If a row of the same key that was committed late came in the meantime,
// it goes before the younger ones.
func (q *queue) unpop(rows []*Row) {
	if len(rows) == 0 {
		return
	}
	met := slices.ContainsFunc(rows, func(r *Row) bool { return r.metBy != 0 })
	isLate := func(r *Row) bool {
		return r.late || met && slices.ContainsFunc(rows, func(back *Row) bool { return back.Hash == r.Hash && q.precedes(r, back) })
	}
	if q.head >= len(rows) && !slices.ContainsFunc(q.rows[q.head:], isLate) {
		q.head -= len(rows)
		copy(q.rows[q.head:], rows)
		return
	}
	var late []*Row
	q.filter(func(r *Row) bool {
		first := isLate(r)
		if first {
			late = append(late, r)
		}
		return !first
	})
	q.rows = slices.Concat(rows, q.rows)
	for _, r := range late {
		q.insert(r)
	}
}

// insert puts a row that was committed late before the first younger row of its key.
func (q *queue) insert(r *Row) {
	for i := q.head; i < len(q.rows); i++ {
		if other := q.rows[i]; other.Hash == r.Hash && q.precedes(r, other) {
			q.rows = slices.Insert(q.rows, i, r)
			return
		}
	}
	q.push(r)
}

// precedes reports whether a row is known to go before another one of its key. Among equal order values, it may be known only from a
// scan that has brought the one and then met the other.
func (q *queue) precedes(r, other *Row) bool {
	met := other.metBy != 0 && r.scan == other.metBy && r.number < other.metAt && low(r) == low(other) && !q.before(other.Position, r.Position)
	return met || q.before(r.Position, other.Position)
}

// filter keeps the rows for which keep returns true.
func (q *queue) filter(keep func(*Row) bool) {
	kept := q.rows[:0]
	for _, r := range q.rows[q.head:] {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	clear(q.rows[len(kept):])
	q.rows, q.head = kept, 0
}
