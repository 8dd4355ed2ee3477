package late

import "math"

// LeaveOut leaves a row to the next walk, which begins before all such rows. The row was written after the present walk
// began. Most such rows are new. But a row that another session has changed meanwhile looks new as well, for instance
// after a late refusal of the last owner. Younger rows of its key must not go before it.
func (c *Commits) LeaveOut(key uint64, ordinal int64) {
	c.lowest = min(c.lowest, ordinal)
	if head, has := c.leftOut[key]; has || len(c.leftOut) < mostLeftOut {
		if !has || ordinal < head {
			c.leftOut[key] = ordinal
		}
	}
}

// Overtakes reports whether a row would overtake a row of its key that was left to the next walk, and the ordinal of
// the first such row.
func (c *Commits) Overtakes(key uint64, ordinal int64) (first int64, overtakes bool) {
	first, left := c.leftOut[key]
	if len(c.leftOut) == mostLeftOut {
		first, left = c.lowest, true
	}
	return first, left && ordinal >= first
}

// TakeLeftOut notes that a walk begins, which meets the rows that the last walk has left out.
func (c *Commits) TakeLeftOut() {
	clear(c.leftOut)
	c.lowest = math.MaxInt64
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
