package dispatch

import (
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// Answer takes the broker's answers for a batch.
func (d *Dispatch) Answer(index int, rows []*Row, errs []error, now time.Time) {
	l := &d.lanes[index]
	l.wire = nil
	a := answers{Dispatch: d, now: now, counts: map[publisher.Class]int{}}
	for i, r := range rows {
		a.one(r, errs[i], len(rows) == 1)
	}
	a.settleOutage()
	d.vain.answered(a.counts, len(rows), index >= d.workers())
	d.restInVain(now.Sub(l.since), now)
	if rows[0].Invalid == nil && !d.To.Nowhere { // an invalid row comes alone and was handed to no publisher
		a.Measure.Published(len(rows), a.counts)
		d.limiter.Spend(-(a.counts[publisher.NotAttempted] + a.counts[publisher.Unavailable] + a.counts[publisher.Topology]))
	}
	l.unpop(a.again)
	d.dropVoid()
	a.Measure.UnexpectedDuplicates(a.unexpected)
	if d.stopping {
		d.Stop()
	}
}

// answers is the processing of one batch's answers.
type answers struct {
	*Dispatch
	now    time.Time
	counts map[publisher.Class]int
	again  []*Row // rows to publish again, in order, before all others
	down   error  // the last answer that says that nothing can be published to the destination
	alive  bool   // an answer shows that the broker works

	unexpected int // duplicates among rows that had not been sent before
}

func (a *answers) one(r *Row, err error, alone bool) {
	class := publisher.ClassOf(err)
	a.counts[class]++
	w := a.waits.byKey[r.Hash]
	if class != publisher.Accepted && a.failing.has(r) { // it goes on, or is dropped, when that failure has been written
		if class == publisher.Ambiguous {
			a.unanswered(r)
		}
		a.requeue(r)
		return
	}
	if class != publisher.Accepted && w != nil && w.trial != r && w.state == writing && a.bars(w, r) {
		a.drop(r) // a row before it was refused, so its own answer does not matter
		return
	}
	switch class {
	case publisher.Accepted:
		a.alive = true
		if d, ok := errors.AsType[*publisher.Duplicate](err); ok {
			a.duplicate(r, d)
		}
		a.accept(r, w)
	case publisher.NotAttempted:
		a.requeue(r)
	case publisher.Refused:
		a.alive = true
		a.refused(r, err, a.Table.KeepsFailures() && r.Try+1 > a.To.MaxAttempts)
	case publisher.Permanent:
		a.alive = a.alive || r.Invalid == nil
		a.refused(r, err, a.Table.KeepsFailures())
	case publisher.Topology, publisher.Unavailable:
		if publisher.ScopeOf(err) == publisher.ScopeDestination {
			a.down = err
			a.requeue(r)
			return
		}
		a.alive = true
		a.put(r, classCause(class), err)
	default:
		a.unanswered(r)
		fate, named := publisher.FateOf(err, r.Message.Topic)
		switch {
		case named && fate.Kind != publisher.FateDestination:
			a.put(r, CauseUnavailable, err)
		case alone && r.unknown > aloneAfter:
			a.isolated(r, w, err)
		default:
			a.down = err
			a.requeue(r)
		}
	}
}

// unanswered notes that the outcome of a publish is unknown.
func (a *answers) unanswered(r *Row) {
	r.unknown++
	a.sentUnknown.Add(sentHash(r))
}

// put makes a row wait for what its answer names.
func (a *answers) put(r *Row, c Cause, err error) {
	if a.lost(r) {
		return
	}
	if w := a.waits.byKey[r.Hash]; w != nil && w.trial != r && a.isVoid(r) {
		a.drop(r)
		return
	}
	a.held(r, c, err, a.now)
	a.remember(r)
	a.forget(r)
}

// lost reports whether the row's shard is no longer relayed here, or was not for a time since the row was handed over. If so,
// it forgets the row: the shard's next owner publishes it. If that is this replica again, older rows of the key may have been
// forgotten that go first, so the row is read again with them.
func (a *answers) lost(r *Row) bool {
	again := a.shards.active.Has(r.Shard)
	if again && !r.left {
		return false
	}
	w := a.waits.byKey[r.Hash]
	a.forget(r)
	switch {
	case again:
		a.cameBack(r, w)
	case w != nil && w.state != writing:
		a.waits.remove(w)
	}
	return true
}

// cameBack makes a row be read again whose shard was lost for a time while it was on the wire.
func (a *answers) cameBack(r *Row, w *Wait) {
	switch {
	case w != nil && w.trial == r:
		w.low = min(w.low, w.head)
		a.catchUp(w)
	case r.Delayed: // no scan brings it
		a.restAlone(r, CauseUnavailable, a.now)
	case w != nil && (w.state == catching || w.state != writing && low(r) <= w.head):
		w.low, w.number = min(w.low, w.next, w.head, low(r)), min(w.number, r.number) // what was read meanwhile goes after it
		a.catchUp(w)
		a.void = true
	default:
		a.passKey(r.key, r.Hash, r.Shard, low(r), a.now)
	}
}

func (a *answers) accept(r *Row, w *Wait) {
	a.accepted++
	a.sentAccepted.Add(sentHash(r))
	r.answered = a.now
	a.settle = append(a.settle, r)
	if a.ordered() && !r.key.keyless && !r.Timed {
		a.Late.Accepted(r.Hash, r.Position.Ordinal)
	}
	if h := a.holds.of(r); h != nil {
		a.release(h, a.now)
	}
	if w != nil && w.trial == r {
		if w.hold != nil {
			a.release(w.hold, a.now)
		}
		w.trial = nil
		a.goOn(w)
	}
}

// refused makes the refusal be written. Until then the row stays in flight and its key waits. A key that goes on anyway keeps its
// queued rows.
func (a *answers) refused(r *Row, err error, failed bool) {
	if w := a.waits.byKey[r.Hash]; w != nil && w.trial == r && w.hold != nil && r.Invalid == nil {
		a.release(w.hold, a.now) // the probe was answered
	}
	if failed && a.goesOn(r) {
		a.failing.add(r, a.now)
	} else {
		a.awaitWrite(r)
	}
	a.refuses(r, err, failed)
}

// refuses hands a refusal over to be written.
func (d *Dispatch) refuses(r *Row, err error, failed bool) {
	if failed && d.Failures != nil && !r.ordering().keyless {
		r.blocks, d.void = true, true
		d.Failures.fails(r)
	}
	d.refuse = append(d.refuse, Refusal{Row: r, Err: err, Failed: failed})
}

// requeue publishes the row again, with the same id and before the rows that follow it. If rows that go before a head
// were passed over while the head was on the wire, the head goes after them.
func (a *answers) requeue(r *Row) {
	w := a.waits.byKey[r.Hash]
	switch {
	case a.lost(r):
	case w != nil && w.trial == r && w.older:
		a.catchUp(w)
		a.drop(r)
	case a.isVoid(r):
		a.drop(r)
	default:
		a.again = append(a.again, r)
	}
}

// isolated handles a row that was alone on the wire and again got no answer. If other rows of the destination have been
// accepted since its last try, this row is the one that breaks the connection, and it is refused. Otherwise the other
// rows go first.
func (a *answers) isolated(r *Row, w *Wait, err error) {
	if a.lost(r) {
		return
	}
	if w != nil && w.headID == r.ID() && r.unknown >= refuseAfter && a.accepted > w.accepted {
		r.unknown = 0
		refusal := publisher.RefusedError("no answer alone", "published alone and again without an answer: %w", err)
		a.refused(r, refusal, a.Table.KeepsFailures() && r.Try+1 > a.To.MaxAttempts)
		w.unknown = 0
		return
	}
	if w, ok := a.lead(r); ok {
		w.failures++
		a.waits.rest(w, CauseUnavailable, a.now.Add(retry.PauseAmong(a.causes(), w.failures)))
		a.remember(r)
	}
	a.forget(r)
}

// refuseAfter is the number of publishes without an answer, the last of them alone, that count as a refusal.
const refuseAfter = 2 * aloneAfter

// settleOutage begins, prolongs or ends the outage of the destination.
func (a *answers) settleOutage() {
	o := &a.outage
	switch {
	case a.alive:
		if o.active() {
			*o = outage{}
			a.To.Reported.Over()
			a.Logger.Info("destination is back")
		}
	case a.down != nil:
		reason := classCause(publisher.ClassOf(a.down))
		if o.fail(reason, a.down, a.now) && !a.To.Reported.Logged(a.down) {
			a.Logger.Warn("destination is held", "reason", reason, "error", a.down)
		}
	default: // nothing was attempted
		o.probing = false
	}
}
