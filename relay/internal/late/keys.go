package late

import "math"

// LeaveOut leaves a row to the next walk, which begins before all of them: the row was written when the present walk had begun. Most such
// rows are new. But a row that somebody has changed meanwhile looks new as well, the last owner with a late refusal, say: what is younger
// in its key must not go before it.
func (c *Commits) LeaveOut(key uint64, ordinal int64) {
	c.lowest = min(c.lowest, ordinal)
	if head, has := c.leftOut[key]; has || len(c.leftOut) < mostLeftOut {
		if !has || ordinal < head {
			c.leftOut[key] = ordinal
		}
	}
}

// Overtakes reports whether a row would overtake one of its key that was left to the next walk, and the ordinal of the first of those.
func (c *Commits) Overtakes(key uint64, ordinal int64) (first int64, overtakes bool) {
	first, left := c.leftOut[key]
	if len(c.leftOut) == mostLeftOut {
		first, left = c.lowest, true
	}
	return first, left && ordinal >= first
}

// TakeLeftOut notes that a walk begins, which comes by what the last one has left out.
func (c *Commits) TakeLeftOut() {
	clear(c.leftOut)
	c.lowest = math.MaxInt64
}

// Accepted remembers the row of a key that was accepted. When there are too many keys the older half is forgotten.
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

// ForgetAccepted forgets what was accepted: the table's order has begun again, and what is known may be of another order.
func (c *Commits) ForgetAccepted() { c.accepted, c.old = nil, nil }
