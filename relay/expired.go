package relay

import (
	"errors"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// errExpired is in the error of a row that failed because it was too old to be published.
var errExpired = errors.New("expired")

// clock is the database's, as far as the last read told: the times of rows are by that one. It is never ahead of it.
type clock struct {
	database time.Time // zero when nothing is known
	at       time.Time // when it was so late there, by the monotonic clock
}

// set takes note of the database's time at some time before now.
func (c *clock) set(database, now time.Time) {
	if !database.IsZero() {
		c.database, c.at = database, now
	}
}

// since returns for how long a time of the database has been past.
func (c *clock) since(t, now time.Time) time.Duration {
	if c.database.IsZero() {
		return 0
	}
	return c.database.Add(now.Sub(c.at)).Sub(t)
}

// expired reports whether a row is too old to be published. One that is invalid fails for that.
func (d *dispatch) expired(r *row, now time.Time) bool {
	return d.to.MaxAge > 0 && d.table.KeepsFailures() && !r.Due.IsZero() && r.Invalid == nil && d.clock.since(r.Due, now) > d.to.MaxAge
}

// expire lets a row fail instead of being published, which needs no broker: it happens during an outage, too. What is queued behind the row
// of its key and is too old as well fails with it, in the same statement; one by one would take a scan for each. Not where failed rows
// block their keys: then the first has to be retried or discarded before.
func (d *dispatch) expire(r *row, now time.Time) {
	r.Invalid = publisher.PermanentError("expired", "%w: not relayed within %v since it was due", errExpired, d.to.MaxAge)
	a := answers{dispatch: d, now: now}
	a.refused(r, r.Invalid, true)
	r.wait.expiring = true
}

// expires reports whether the row that is next in its lane is to fail for its age.
func (d *dispatch) expires(r *row, now time.Time) bool {
	if !d.expired(r, now) {
		return false
	}
	if !d.isVoid(r) {
		return true
	}
	w := d.waits.byKey[r.hash]
	return w != nil && w.state == writing && w.expiring && d.failures == nil
}

// holdsKey reports whether there is a row of this key.
func holdsKey(rows []*row, hash uint64) bool {
	return slices.ContainsFunc(rows, func(r *row) bool { return r.hash == hash })
}
