package relay

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// settled notes that rows were marked, and returns them. Those that could not be stay in flight, so that
// they are not published again.
func (d *dispatch) settled(o outcome, now time.Time) []*row {
	rows := o.accepted
	if len(o.rejected) > 0 {
		rows = slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return o.rejected[r.Identity()] })
		d.keepRejected(&o, now)
	}
	for _, r := range rows {
		d.done(r)
		d.to.endSpan(r, nil, now)
	}
	return rows
}

// done forgets a row that a read which is under way may still return as it was.
func (d *dispatch) done(r *row) {
	if d.gone != nil {
		d.gone[r.Identity()] = struct{}{}
	}
	d.forget(r)
}

// refusedWritten notes that refusals were written; keys whose rows were not as read any more are read again.
func (d *dispatch) refusedWritten(o outcome, now time.Time) {
	for _, x := range o.refused {
		r := x.row
		d.done(r)
		written, unwritable := o.written[r.Identity()], o.unwritable[r.Identity()]
		if x.failed && written {
			d.metrics.failed(d.to, x.err)
			d.failedLog.row(r, x.err, true, now)
			d.to.endSpan(r, x.err, now)
		}
		last := x.failed && d.failures != nil && !r.ordering().keyless && !unwritable
		if last {
			d.failures.failedHere(r, written)
		}
		if w := r.wait; w.state != forgotten {
			if w.writes--; w.writes == 0 {
				d.refusalWritten(w, x, written, unwritable, last, now)
			}
		}
	}
	d.dropVoid()
}

// refusalWritten goes on with a key after the refusal of its head.
func (d *dispatch) refusalWritten(w *wait, x refusal, written, unwritable, last bool, now time.Time) {
	r, to := x.row, d.to
	spent := !x.failed && (r.attempt+1 > to.MaxAttempts || publisher.ClassOf(x.err) == publisher.Permanent)
	if spent && written && (r.attempt == to.MaxAttempts || w.refusals == 1) { // once
		d.failedLog.row(r, x.err, false, now)
	} else if !x.failed {
		d.failedLog.refused(r, x.err, w.refusals > 1 || d.table.KeepsErrors() && d.table.KeepsFailures(), now)
	}
	switch {
	case !d.shards.active.Has(r.Shard):
		d.waits.remove(w)
	case unwritable && w.expiring:
		d.waits.rest(w, causeFailed, now.Add(to.BackoffMax))
	case last:
		d.failures.lower(r.ordering(), min(w.head, w.low))
		d.waits.remove(w)
		d.void = true
	case x.failed && written && w.headID == r.ID():
		d.goOn(w)
	case w.older || w.low < w.head || !written && !unwritable:
		w.low = min(w.low, w.head)
		d.catchUp(w)
	case len(d.waits.byKey) > d.limits.remembered(): // it was remembered to be written
		d.waits.remove(w)
		d.crowd(r.hash, low(r), now)
	case unwritable, spent: // it would have failed, but the table cannot say so
		d.waits.rest(w, causeFailed, now.Add(to.BackoffMax))
	default:
		d.waits.rest(w, causeRetry, now.Add(retry.Backoff(to.BackoffMin, to.BackoffMax, r.Message.ID, r.attempt+1)))
	}
}
