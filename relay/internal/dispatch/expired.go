package dispatch

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// errExpired is wrapped by the error of a row that failed because it was too old to be published.
var errExpired = outbox.ErrExpired

// clock estimates the database's clock from the last read, since the times of rows are taken from that clock. The
// estimate is never ahead.
type clock struct {
	database time.Time // time in the database; zero if nothing is known
	at       time.Time // when it was that time there, by the monotonic clock
}

// SetClock records the database's time at a moment before now.
func (d *Dispatch) SetClock(database, now time.Time) {
	if !database.IsZero() {
		d.clock = clock{database, now}
	}
}

// since returns how long ago a time of the database was, or 0 if the database's time is not known.
func (c *clock) since(t, now time.Time) time.Duration {
	if c.database.IsZero() {
		return 0
	}
	return c.database.Add(now.Sub(c.at)).Sub(t)
}

// expired reports whether a row is too old to be published. An invalid row fails for being invalid instead.
func (d *Dispatch) expired(r *Row, now time.Time) bool {
	return d.To.MaxAge > 0 && d.Table.KeepsFailures() && !r.Due.IsZero() && r.Invalid == nil && d.clock.since(r.Due, now) > d.To.MaxAge
}

// expire makes a row fail instead of being published. This needs no broker, so it also happens during an outage. If
// later rows of its key are queued that are too old as well, they fail in the same statement, since one at a time would
// take a scan for each. Where failed rows block their keys they do not: the first row has to be retried or discarded
// before.
func (d *Dispatch) expire(r *Row) {
	r.Invalid = publisher.PermanentError("expired", "%w: not relayed within %v since it was due", errExpired, d.To.MaxAge)
	d.awaitWrite(r)
	r.wait.expiring, d.aged = true, agedReads
	d.refuses(r, r.Invalid, true)
}

// agedReads is for how many reads rows are expected to be too old after one was.
const agedReads = 16

// expires reports whether the row that is next in its lane is to fail because of its age.
func (d *Dispatch) expires(r *Row, now time.Time) bool {
	if !d.expired(r, now) {
		return false
	}
	if !d.isVoid(r) {
		return true
	}
	w := d.waits.byKey[r.Hash]
	return w != nil && w.state == writing && w.expiring && d.Failures == nil
}
