package relay

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// answer takes the broker's answers for a batch.
func (d *dispatch) answer(to *destination, worker int, rows []*row, errs []error, now time.Time) {
	to.busy[worker] = false
	a := answers{dispatch: d, to: to, now: now, counts: map[publisher.Class]int{}}
	for i, r := range rows {
		a.one(r, errs[i], len(rows) == 1)
	}
	a.settleHold()
	to.queues[worker].unpop(a.again)
	d.metrics.published(to.Destination, len(rows), a.counts)
	if d.stopping {
		d.stop()
	}
}

// answers is the work on one batch's answers.
type answers struct {
	*dispatch
	to     *destination
	now    time.Time
	counts map[publisher.Class]int
	again  []*row // published again, in order, before everything else
	down   error  // the last answer that says nothing can be published to the destination
	reason cause
	alive  bool // an answer shows that the broker answers
}

func (a *answers) one(r *row, err error, alone bool) {
	class := publisher.ClassOf(err)
	a.counts[class]++
	if b := a.blocks.byKey[r.key]; class != publisher.Accepted && b != nil && b.phase == writing {
		a.drop(r) // behind a row that was refused, whatever the publisher says of it
		return
	}
	switch class {
	case publisher.Accepted:
		a.alive = true
		a.accepted(r)
	case publisher.NotAttempted:
		a.requeue(r)
	case publisher.Refused:
		a.alive = true
		a.refused(r, err, a.keepFailures && r.attempt+1 > r.destination.MaxAttempts)
	case publisher.Permanent:
		a.alive = a.alive || r.Invalid == nil
		a.refused(r, err, a.keepFailures)
	case publisher.Topology:
		a.held(r, causeTopology, err)
	case publisher.Unavailable:
		a.held(r, causeUnavailable, err)
	default:
		r.unknown++
		if alone && r.unknown > aloneAfter {
			a.isolated(r, err)
			return
		}
		a.down, a.reason = err, causeUnavailable
		a.requeue(r)
	}
}

// member reports whether the row belongs to the present re-read of its blocked key.
func (d *dispatch) member(r *row) bool {
	b := d.blocks.byKey[r.key]
	return b != nil && r.block == b && r.generation == b.generation
}

func (a *answers) accepted(r *row) {
	a.to.accepted++
	a.settle = append(a.settle, r)
	a.leaveLane(r)
	if a.ordinal && !r.key.keyless {
		a.latest.note(r.key.hash(), r.Position.Ordinal)
	}
	if h := a.topics[topic{a.to, r.Message.Topic}]; h.active() {
		a.release(h)
		delete(a.topics, topic{a.to, r.Message.Topic})
		a.logger.Info("topic is back", "destination", a.to.Name, "topic", r.Message.Topic)
	}
	if a.member(r) {
		b := r.block
		b.failures, b.unknown, b.refusals = 0, 0, 0 // they were this row's
		if b.trying--; b.trying == 0 && b.phase == trying {
			a.finish(b)
		}
	}
}

// refused lets the refusal be written; until then the row stays in flight and its key waits.
func (a *answers) refused(r *row, err error, failed bool) {
	b := a.block(r, causeRetry)
	b.phase, b.failures = writing, 0
	b.refusals++
	r.block, r.generation = b, b.generation
	a.leaveLane(r)
	a.refuse = append(a.refuse, refusal{row: r, err: err, failed: failed})
}

// held lets the row's key wait for its destination or topic, or for a moment.
func (a *answers) held(r *row, c cause, err error) {
	switch publisher.ScopeOf(err) {
	case publisher.ScopeDestination:
		a.down, a.reason = err, c
		if a.single() {
			a.requeue(r)
			return
		}
		a.to.hold.cause, a.to.hold.err = c, err
		a.blocks.waitFor(a.block(r, c), &a.to.hold)
	case publisher.ScopeTopic:
		a.alive = true
		name := topic{a.to, r.Message.Topic}
		h := a.topics[name]
		if h == nil {
			h = &hold{}
			a.topics[name] = h
		}
		if !h.active() || h.until.Before(a.now) { // once for all rows of the batch
			if h.fail(c, err, a.now) {
				a.logger.Warn("topic is held", "destination", a.to.Name, "topic", r.Message.Topic, "reason", c, "error", err)
			}
		}
		if r.key.keyless && a.blocks.byKey[r.key] == nil && len(h.blocks) > 0 {
			h.skip(r.Position.Ordinal)
		} else {
			a.blocks.waitFor(a.block(r, c), h)
		}
	default:
		a.alive = true
		b := a.block(r, c)
		b.failures++
		a.blocks.waitUntil(b, a.now.Add(pause(b.failures)))
	}
	a.drop(r)
}

// requeue publishes the row again, with the same id and before the rows behind it.
func (a *answers) requeue(r *row) {
	if !a.shards.active.Has(r.Shard) {
		a.drop(r) // its next owner publishes it again
		return
	}
	b := a.blocks.byKey[r.key]
	if b == nil || a.member(r) {
		a.again = append(a.again, r)
		return
	}
	// Its key was blocked while it was on the wire. What was read of the key since is void.
	if b.phase != waiting && b.phase != writing {
		a.blocks.makeReady(a.block(r, b.cause))
	}
	a.drop(r)
}

// isolated deals with a row that was alone on the wire, and again without an answer. If other rows of the
// destination have been accepted since its last try, it is the one that breaks the connection, and it is
// refused. Otherwise they go first.
func (a *answers) isolated(r *row, err error) {
	b := a.blocks.byKey[r.key]
	if b != nil && r.unknown >= refuseAfter && a.to.accepted > b.accepted {
		b.unknown = 0
		a.refused(r, publisher.RefusedError("no answer alone", "published alone and again without an answer: %w", err), a.keepFailures && r.attempt+1 > r.destination.MaxAttempts)
		return
	}
	b = a.block(r, causeUnavailable)
	b.unknown, b.accepted = r.unknown, a.to.accepted
	b.failures++
	a.blocks.waitUntil(b, a.now.Add(pause(b.failures)))
	a.drop(r)
}

// refuseAfter is how many publishes without an answer, the last of them alone, count as a refusal.
const refuseAfter = 2 * aloneAfter

// settleHold begins, prolongs or ends the hold of the destination.
func (a *answers) settleHold() {
	h := &a.to.hold
	switch {
	case a.alive:
		if h.active() {
			a.release(h)
			a.logger.Info("destination is back", "destination", a.to.Name)
		}
	case a.down != nil:
		if h.fail(a.reason, a.down, a.now) {
			a.logger.Warn("destination is held", "destination", a.to.Name, "reason", a.reason, "error", a.down)
		}
	default: // nothing was attempted
		h.probing = false
	}
}

// release ends a hold: everything that waited for it is read again.
func (d *dispatch) release(h *hold) {
	h.failures, h.err, h.probing = 0, nil, false
	for b := range h.blocks {
		delete(h.blocks, b)
		b.hold = nil
		if b.phase == waiting {
			d.blocks.makeReady(b)
		}
	}
	if h.skipped {
		if d.rewind == nil || h.from < *d.rewind {
			from := h.from
			d.rewind = &from
		}
		h.skipped = false
	}
}

// probe chooses for each hold that is due one of the keys that wait for it.
func (d *dispatch) probe(now time.Time) {
	choose := func(h *hold) {
		if !h.active() || h.probing || now.Before(h.until) {
			return
		}
		for b := range h.blocks {
			if b.phase == waiting {
				h.probing = true
				d.blocks.makeReady(b)
				return
			}
		}
		if len(h.blocks) == 0 {
			d.release(h) // its rows are gone
		}
	}
	for name, h := range d.topics {
		if choose(h); !h.active() {
			delete(d.topics, name)
		}
	}
	if !d.single() {
		for _, to := range d.destinations {
			choose(&to.hold)
		}
	}
}

// rereads returns blocked keys whose time has come, all with a key or all without, to be read again.
func (d *dispatch) rereads(now time.Time) []*block {
	d.dropVoid() // first: a row that is dropped may be its key's head
	d.blocks.collect(now)
	d.probe(now)
	return d.blocks.next(rereadKeys)
}

// rereadKeys is how many keys one read asks for.
const rereadKeys = 64

// settled notes that rows were marked, and returns them. Those that could not be stay in flight, so that
// they are not published again.
func (d *dispatch) settled(o outcome, now time.Time) []*row {
	rows := o.accepted
	if len(o.rejected) > 0 {
		d.rejected, d.rejectedDue = append(d.rejected, o.rejected...), now.Add(rejectedPause)
		rows = slices.DeleteFunc(rows, func(r *row) bool { return slices.Contains(o.rejected, r) })
	}
	for _, r := range rows {
		if d.reading {
			d.gone[r.ID()] = struct{}{}
		}
		d.forget(r)
	}
	return rows
}

// rejectedPause is how long a row waits that the database would not mark.
const rejectedPause = 10 * time.Second

// retryRejected lets the rows that could not be marked be tried again.
func (d *dispatch) retryRejected(now time.Time) {
	if len(d.rejected) > 0 && !now.Before(d.rejectedDue) {
		d.settle, d.rejected = append(d.settle, d.rejected...), nil
	}
}

// refusedWritten notes that refusals were written; the rows that were not as read any more are read again.
func (d *dispatch) refusedWritten(o outcome, now time.Time) {
	for _, x := range o.refused {
		r, b, to := x.row, x.row.block, x.row.destination
		d.forget(r)
		if x.failed && o.written[r.ID()] {
			d.metrics.failed(to.Destination, publisher.ClassOf(x.err))
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
		case o.unwritable[r.ID()]:
			b.cause = causeFailed
			d.blocks.waitUntil(b, now.Add(to.BackoffMax))
		case !o.written[r.ID()], b.older && !x.failed:
			d.blocks.makeReady(b)
		case x.failed:
			b.refusals = 0
			d.blocks.makeReady(b)
		case r.attempt+1 > to.MaxAttempts || publisher.ClassOf(x.err) == publisher.Permanent:
			// It would have failed, but the table has no column to say so.
			b.cause = causeFailed
			d.blocks.waitUntil(b, now.Add(to.BackoffMax))
		default:
			d.blocks.waitUntil(b, now.Add(backoff(to.BackoffMin, to.BackoffMax, r.Message.ID, r.attempt+1)))
		}
	}
}

// nextReread returns when a blocked key or a hold has to be looked at again by a re-read.
func (d *dispatch) nextReread() (time.Time, bool) {
	var next earliest
	if len(d.blocks.due) > 0 {
		next.consider(d.blocks.due[0].due)
	}
	for _, h := range d.topics {
		if !h.probing {
			next.consider(h.until)
		}
	}
	if !d.single() {
		for _, to := range d.destinations {
			if to.hold.active() && !to.hold.probing {
				next.consider(to.hold.until)
			}
		}
	}
	return next.time, !next.time.IsZero()
}

// nextProbe returns when queued rows may try their destination that is held.
func (d *dispatch) nextProbe() (time.Time, bool) {
	var next earliest
	for _, to := range d.destinations {
		for i := range to.queues {
			if d.single() && to.hold.active() && !to.hold.probing && !to.busy[i] && to.queues[i].len() > 0 {
				next.consider(to.hold.until)
			}
		}
	}
	return next.time, !next.time.IsZero()
}

// earliest is the earliest of some times.
type earliest struct{ time time.Time }

func (e *earliest) consider(t time.Time) {
	if e.time.IsZero() || t.Before(e.time) {
		e.time = t
	}
}

// held counts the rows that are known to wait, by destination and reason.
func (d *dispatch) held() map[*Destination]map[cause]int64 {
	held := map[*Destination]map[cause]int64{}
	for _, to := range d.destinations {
		held[to.Destination] = map[cause]int64{}
		if to.hold.active() {
			for i := range to.queues {
				held[to.Destination][to.hold.cause] += int64(to.queues[i].len())
			}
		}
	}
	for _, b := range d.blocks.byKey {
		held[b.destination.Destination][b.cause]++
	}
	return held
}
