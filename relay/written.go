package relay

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
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
		if d.reading {
			d.gone[r.Identity()] = struct{}{}
		}
		d.forget(r)
	}
	return rows
}

// refusedWritten notes that refusals were written; the rows that were not as read any more are read again.
func (d *dispatch) refusedWritten(o outcome, now time.Time) {
	for _, x := range o.refused {
		r, b, to := x.row, x.row.block, x.row.destination
		d.forget(r)
		if x.failed && o.written[r.Identity()] {
			d.metrics.failed(to.Destination, publisher.ClassOf(x.err))
			d.failedLog.row(r, x.err, true, now)
		}
		last := x.failed && to.BlockFailed && !r.key.keyless && !o.unwritable[r.Identity()]
		if last {
			d.failures.failedHere(r, o.written[r.Identity()])
		}
		if d.blocks.byKey[r.key] != b || b.generation != r.generation {
			continue
		}
		if !d.shards.active.Has(r.Shard) {
			d.blocks.remove(b)
			continue
		}
		b.dropped = true
		switch {
		case len(d.blocks.byKey) > d.limits.blocked(), d.blocks.bytes > maxBlockedBytes: // it was blocked to be written
			d.blocks.remove(b)
			d.pass(r, nil, now)
			if d.reading { // a read may return the row as it was before
				d.gone[r.Identity()] = struct{}{}
			}
		case last:
			b.refusals = 0
			d.waitForFailed(b)
		case o.unwritable[r.Identity()]:
			b.cause = causeFailed
			d.blocks.waitUntil(b, now.Add(to.BackoffMax))
		case !o.written[r.Identity()], b.older && !x.failed:
			d.blocks.makeReady(b)
		case x.failed:
			b.refusals = 0
			d.blocks.makeReady(b)
		case r.attempt+1 > to.MaxAttempts || publisher.ClassOf(x.err) == publisher.Permanent:
			// It would have failed, but the table has no column to say so.
			if r.attempt == to.MaxAttempts || b.refusals == 1 { // once
				d.failedLog.row(r, x.err, false, now)
			}
			b.cause = causeFailed
			d.blocks.waitUntil(b, now.Add(to.BackoffMax))
		default:
			d.blocks.waitUntil(b, now.Add(backoff(to.BackoffMin, to.BackoffMax, r.Message.ID, r.attempt+1)))
		}
	}
}
