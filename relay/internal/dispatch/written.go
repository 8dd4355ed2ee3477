package dispatch

import (
	"errors"
	"iter"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// Write calls to with what is to be written now. What could not be written before is tried separately.
func (d *Dispatch) Write(now time.Time, to func(Outcome)) {
	d.failureLog.Flush(now)
	if !d.retrying() {
		o, ok := d.locked.retry(now)
		if !ok {
			o, ok = d.rejected.retry(now)
		}
		if ok {
			to(o)
		}
	}
	if len(d.settle)+len(d.refuse) > 0 {
		to(Outcome{Accepted: d.settle, Refused: d.refuse, Careful: d.locked.careful(now)})
		d.settle, d.refuse = nil, nil
	}
}

// Written processes what was written of an outcome. Rows that could not be written stay in flight, so that they are not
// published again.
func (d *Dispatch) Written(o Outcome, now time.Time) {
	if len(o.Refused) > 0 {
		d.restInVain(o.Took, now)
	}
	d.keepLocked(&o, now)
	d.keepRejected(&o, now)
	for _, r := range o.Accepted {
		d.done(r)
		r.finish(nil, now)
	}
	d.Measure.Relayed(latencies(o.Accepted), now)
	d.refusedWritten(o, now)
	switch o.Again {
	case AgainLocked:
		d.retriedLocked()
	case againRejected:
		d.retriedRejected()
	case Fresh:
	}
}

// latencies returns the times from when rows were due to when they were accepted.
func latencies(rows []*Row) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for _, r := range rows {
			latency := measure.Unknown
			if !r.Due.IsZero() {
				latency = r.answered.Sub(r.Due)
			}
			if !yield(latency) {
				return
			}
		}
	}
}

// done forgets a row, and notes that a read that is under way may still return it.
func (d *Dispatch) done(r *Row) {
	if d.gone != nil {
		d.gone[r.Identity()] = struct{}{}
	}
	d.forget(r)
}

// refusedWritten processes refusals that were written. Keys whose rows had changed since they were read are read again.
func (d *Dispatch) refusedWritten(o Outcome, now time.Time) {
	n := 0 // number of refusals that cannot be written
	for _, x := range o.Refused {
		d.done(x.Row)
		effect := o.Effects[x.Row.Identity()]
		if effect == Unwritable {
			n++
		}
		d.failureWritten(x, effect, now)
		d.keyWritten(x, effect, now)
	}
	if n > 0 && now.Sub(d.unwritable) > time.Minute {
		d.unwritable = now
		d.Logger.Error("refused rows cannot be written, since the table does not take the change; their keys wait, and they are tried again",
			"rows", n, "error", o.Why)
	}
	d.dropVoid()
}

// failureWritten notes that a row has failed, or that its failure was not written.
func (d *Dispatch) failureWritten(x Refusal, effect Effect, now time.Time) {
	r, written := x.Row, effect == Written
	if x.Failed && written {
		d.Measure.Failed(failure(x.Err), now)
		d.failureLog.Failed(&r.Message, r.Try, x.Err, true, now)
		r.finish(x.Err, now)
	}
	if r.blocks && !written {
		d.Failures.notFailed()
	}
}

// keyWritten goes on with the key of a refused row, if no other refusal of it is being written.
func (d *Dispatch) keyWritten(x Refusal, effect Effect, now time.Time) {
	r := x.Row
	if r.wait == nil {
		d.failureOver(r, now)
		if effect == Written {
			return // the key has not waited
		}
		d.awaitWrite(r)
	}
	if w := r.wait; w.state != forgotten {
		if w.writes--; w.writes == 0 {
			d.refusalWritten(w, x, effect, now)
		}
	}
}

// failure returns the reason for which a row failed with an error.
func failure(err error) string {
	switch {
	case errors.Is(err, errExpired):
		return measure.FailedExpired
	case publisher.ClassOf(err) == publisher.Permanent:
		return measure.FailedPermanent
	default:
		return measure.FailedAttempts
	}
}

// refusalWritten goes on with a key after the refusal of its head.
func (d *Dispatch) refusalWritten(w *Wait, x Refusal, effect Effect, now time.Time) {
	r, to, written, unwritable := x.Row, d.To, effect == Written, effect == Unwritable
	spent := !x.Failed && (r.Try+1 > to.MaxAttempts || publisher.ClassOf(x.Err) == publisher.Permanent)
	if spent && written && (r.Try == to.MaxAttempts || w.refusals == 1) { // log it once
		d.failureLog.Failed(&r.Message, r.Try, x.Err, false, now)
	} else if !x.Failed {
		d.failureLog.Refused(&r.Message, r.Try, x.Err, w.refusals > 1 || d.Table.KeepsErrors() && d.Table.KeepsFailures(), now)
	}
	switch {
	case !d.shards.active.Has(r.Shard):
		d.waits.remove(w)
	case unwritable && w.expiring:
		d.waits.rest(w, CauseFailed, now.Add(to.BackoffMax))
	case r.blocks && !unwritable:
		d.Failures.lower(r.ordering(), min(w.head, w.low))
		d.waits.remove(w)
		d.void = true
	case x.Failed && written && w.headID == r.ID():
		d.goOn(w)
	case w.older || r.left || w.low < w.head || !written && !unwritable: // of a shard that was left, older rows are forgotten
		w.low = min(w.low, w.head)
		d.catchUp(w)
	case len(d.waits.byKey) > d.waits.most: // the key was remembered only until the refusal was written
		d.waits.remove(w)
		d.crowd(r.Hash, low(r), now)
	case unwritable, spent: // the row would have failed, but the table cannot record it
		d.waits.rest(w, CauseFailed, now.Add(to.BackoffMax))
	default:
		d.waits.rest(w, CauseRetry, now.Add(retry.Backoff(to.BackoffMin, to.BackoffMax, r.Message.ID, r.Try+1)))
	}
}
