package late

import "math"

// leftOut are rows that were left to the next tail scan, by key.
type leftOut struct {
	first  map[uint64]int64 // ordinal of the first such row, by the key's hash
	lowest int64            // lowest of first
}

func nothingLeftOut() leftOut { return leftOut{first: map[uint64]int64{}, lowest: math.MaxInt64} }

func (l *leftOut) add(key uint64, ordinal int64) {
	l.lowest = min(l.lowest, ordinal)
	if first, has := l.first[key]; has || len(l.first) < mostLeftOut {
		if !has || ordinal < first {
			l.first[key] = ordinal
		}
	}
}

func (l *leftOut) addAll(other leftOut) {
	for key, ordinal := range other.first {
		l.add(key, ordinal)
	}
	l.lowest = min(l.lowest, other.lowest)
}

// overtakenBy reports whether a row is not before the first such row of its key, and the ordinal of that one.
func (l *leftOut) overtakenBy(key uint64, ordinal int64) (first int64, overtaken bool) {
	first, left := l.first[key]
	if len(l.first) == mostLeftOut {
		first, left = l.lowest, true
	}
	return first, left && ordinal >= first
}

func (l *leftOut) forget() {
	clear(l.first)
	l.lowest = math.MaxInt64
}

// LeaveOut leaves a row to the next tail scan, which begins before all such rows. The row was written after the present scan began, a
// catch-up scan if scan is true. Most such rows are new. But a row that another session has changed meanwhile looks new as well, for
// instance after a late refusal of the last owner, or after another destination has marked it. Younger rows of its key must not go
// before it.
func (c *Commits) LeaveOut(key uint64, ordinal int64, scan bool) {
	c.tailLeft.add(key, ordinal)
	c.leftByScan = c.leftByScan || scan
}

// Overtakes reports whether a row would overtake a row of its key that was left to a tail scan, and the ordinal of the first such row.
// The present tail scan (tail) meets the rows that were left to it in order. Other reads may meet younger ones earlier.
func (c *Commits) Overtakes(key uint64, ordinal int64, tail bool) (first int64, overtakes bool) {
	first, overtakes = c.tailLeft.overtakenBy(key, ordinal)
	if !overtakes && !tail {
		return c.owed.overtakenBy(key, ordinal)
	}
	return first, overtakes
}

// TakeLeftOut notes that a tail scan begins, which brings the rows that were left to it, and those that were left to a tail scan that has
// not reached its end.
func (c *Commits) TakeLeftOut() {
	if len(c.owed.first) == 0 {
		c.owed, c.tailLeft = c.tailLeft, c.owed
	}
	c.owed.addAll(c.tailLeft)
	c.tailLeft.forget()
	c.leftByScan = false
}

// Accepted remembers a row that was accepted, by its key. When there are too many keys, the older half is forgotten.
func (c *Commits) Accepted(key uint64, ordinal int64) {
	if c.accepted == nil || len(c.accepted) >= mostAccepted {
		c.accepted, c.old = make(map[uint64]int64), c.accepted
	}
	if known, ok := c.accepted[key]; !ok || known < ordinal {
		c.accepted[key] = ordinal
	}
}

// OutOfOrder reports whether a younger row of the key is known to have been accepted.
func (c *Commits) OutOfOrder(key uint64, ordinal int64) bool {
	return c.accepted[key] > ordinal || c.old[key] > ordinal
}

// ForgetAccepted forgets which rows were accepted: the table's order has begun again, and what is known may belong to
// another order.
func (c *Commits) ForgetAccepted() { c.accepted, c.old = nil, nil }
