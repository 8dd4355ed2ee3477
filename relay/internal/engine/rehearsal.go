package engine

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Rehearses reports whether the marks of a batch that is handed over are to be rehearsed before it is published. Rows
// that the database does not mark would be published again after each restart, and by the next owner of their shards.
// So the rows that the last owner may have left are rehearsed, and all rows while the database refuses to mark one.
// Each is rehearsed once: those that try a broker in an outage, ten twice a second, would leave dead rows all the time.
func (e *Engine) Rehearses(batch []*Row) bool {
	if !slices.ContainsFunc(batch, func(r *Row) bool { return !r.Rehearsed }) {
		return false
	}
	return e.unproven > 0 || e.held[CauseMark] > 0 || e.rejected.number() > 0 ||
		slices.ContainsFunc(batch, func(r *Row) bool { return r.key.unmarkable })
}

// pastLeft reports whether everything is marked that the last owner of the shards may have left published and not
// marked: nothing is left in the table. These rows come first there, and are at most as many as may be in flight, so
// they are also past when so many are marked. Only rows that are marked count: batches that are handed over again in an
// outage would count again and again, and end the rehearsals too early.
func (e *Engine) pastLeft() bool {
	return e.queued+e.publishing == 0 && !e.tails[Tail].more && !e.tails[Due].more
}

// withhold makes a key wait whose first row is not published. The row stays pending in the table, so that any number of
// them may wait. A row that another session keeps locked waits until it is free, since its mark would wait as well.
// Most locks are gone in a moment, such as those of another destination that tries the same rows. A relay that
// published such a row after eight tries did so at each start: with one lock held, four starts sent 60 rows four times.
func (e *Engine) withhold(k *key, why error, now time.Time) {
	r, pause, locked := k.queue[0], min(rejectedPause, e.BackoffMax), outbox.Locked(why)
	cause := CauseMark
	e.vain++
	k.tries++
	k.unmarkable = true
	if locked {
		why, pause = outbox.ErrLocked, min(pause, e.pause(k.tries))
	}
	e.unwritable = why
	switch {
	case locked && k.tries <= lockedTries: // says nothing about the marks of other rows, which are not rehearsed for it
		cause = causeOrder
	case locked:
		e.warnOfLocks(now, "id", r.Message.ID, "topic", r.Message.Topic)
	case e.isNews("unmarkable", now):
		e.Logger.Error("rows are not published, since the table would not take their marks; "+
			"their keys wait, and they are tried again",
			"id", r.Message.ID, "topic", r.Message.Topic, "error", why)
	}
	e.rest(k, cause, now.Add(pause))
}

// lockedTries is how often a locked row is tried before that is logged, in two seconds or more.
const lockedTries = 8

func (e *Engine) warnOfLocks(now time.Time, args ...any) {
	if e.isNews("locked", now) {
		e.Logger.Warn("rows are locked by another session; they are tried again until they are free", args...)
	}
}
