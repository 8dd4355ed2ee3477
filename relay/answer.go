package relay

import (
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// answer takes the broker's answers for a batch.
func (d *dispatch) answer(index int, rows []*row, errs []error, now time.Time) {
	l := &d.lanes[index]
	l.wire = nil
	a := answers{dispatch: d, now: now, counts: map[publisher.Class]int{}}
	for i, r := range rows {
		a.one(r, errs[i], len(rows) == 1)
	}
	a.settleOutage()
	if rows[0].Invalid == nil { // such a row comes alone and was handed to no publisher
		d.metrics.published(d.to, len(rows), a.counts)
		d.limiter.Spend(-(a.counts[publisher.NotAttempted] + a.counts[publisher.Unavailable] + a.counts[publisher.Topology]))
	}
	l.unpop(a.again)
	d.dropVoid()
	d.metrics.unexpectedDuplicates(d.to, a.unexpected)
	if d.stopping {
		d.stop()
	}
}

// answers is the work on one batch's answers.
type answers struct {
	*dispatch
	now    time.Time
	counts map[publisher.Class]int
	again  []*row // published again, in order, before everything else
	down   error  // the last answer that says nothing can be published to the destination
	alive  bool   // an answer shows that the broker answers

	unexpected int // duplicates of rows that were not sent before
}

func (a *answers) one(r *row, err error, alone bool) {
	class := publisher.ClassOf(err)
	a.counts[class]++
	w := a.waits.byKey[r.hash]
	if class != publisher.Accepted && w != nil && w.trial != r && w.state == writing && w.bars(low(r)) {
		a.drop(r) // behind a row that was refused, whatever the publisher says of it
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
		a.refused(r, err, a.table.KeepsFailures() && r.attempt+1 > a.to.MaxAttempts)
	case publisher.Permanent:
		a.alive = a.alive || r.Invalid == nil
		a.refused(r, err, a.table.KeepsFailures())
	case publisher.Topology, publisher.Unavailable:
		if publisher.ScopeOf(err) == publisher.ScopeDestination {
			a.down = err
			a.requeue(r)
			return
		}
		a.alive = true
		a.put(r, classCause(class), err)
	default:
		r.unknown++
		a.sent.noteUnknown(r)
		fate, named := publisher.FateOf(err, r.Message.Topic)
		switch {
		case named && fate.Kind != publisher.FateDestination:
			a.put(r, causeUnavailable, err)
		case alone && r.unknown > aloneAfter:
			a.isolated(r, w, err)
		default:
			a.down = err
			a.requeue(r)
		}
	}
}

// put lets a row wait for what its answer names.
func (a *answers) put(r *row, c cause, err error) {
	if a.lost(r) {
		return
	}
	if w := a.waits.byKey[r.hash]; w != nil && w.trial != r && a.isVoid(r) {
		a.drop(r)
		return
	}
	a.held(r, c, err, a.now)
	a.remember(r)
	a.forget(r)
}

// lost forgets the row if its shard is no longer ours, and reports whether it is so: its next owner publishes it.
func (d *dispatch) lost(r *row) bool {
	if d.shards.active.Has(r.Shard) {
		return false
	}
	if w := d.waits.byKey[r.hash]; w != nil && w.state != writing {
		d.waits.remove(w)
	}
	d.forget(r)
	return true
}

func (a *answers) accept(r *row, w *wait) {
	a.accepted++
	a.sent.noteAccepted(r)
	r.answered = a.now
	a.settle = append(a.settle, r)
	if a.ordered() && !r.key.keyless {
		a.late.Accepted(r.hash, r.Position.Ordinal)
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

// refused lets the refusal be written; until then the row stays in flight and its key waits.
func (a *answers) refused(r *row, err error, failed bool) {
	if w := a.waits.byKey[r.hash]; w != nil && w.trial == r && w.hold != nil && r.Invalid == nil {
		a.release(w.hold, a.now) // it was answered
	}
	older := false
	if w := a.waits.byKey[r.hash]; w != nil {
		older = w.older
	}
	w, ok := a.lead(r)
	if w.state != writing {
		a.waits.enter(w, writing, causeRetry)
		a.waits.heads(w, r.ID())
		w.head, w.failures, w.older = low(r), 0, older || !ok
		w.refusals++
	}
	w.writes++
	r.wait = w
	a.refuse = append(a.refuse, refusal{row: r, err: err, failed: failed})
}

// requeue publishes the row again, with the same id and before the rows behind it. A head before which something was passed over while
// it was on the wire goes behind that.
func (a *answers) requeue(r *row) {
	w := a.waits.byKey[r.hash]
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

// isolated deals with a row that was alone on the wire, and again without an answer. If other rows of the
// destination have been accepted since its last try, it is the one that breaks the connection, and it is
// refused. Otherwise they go first.
func (a *answers) isolated(r *row, w *wait, err error) {
	if a.lost(r) {
		return
	}
	if w != nil && w.headID == r.ID() && r.unknown >= refuseAfter && a.accepted > w.accepted {
		r.unknown = 0
		refusal := publisher.RefusedError("no answer alone", "published alone and again without an answer: %w", err)
		a.refused(r, refusal, a.table.KeepsFailures() && r.attempt+1 > a.to.MaxAttempts)
		w.unknown = 0
		return
	}
	if w, ok := a.lead(r); ok {
		w.failures++
		a.waits.rest(w, causeUnavailable, a.now.Add(retry.PauseAmong(a.causes(), w.failures)))
		a.remember(r)
	}
	a.forget(r)
}

// refuseAfter is how many publishes without an answer, the last of them alone, count as a refusal.
const refuseAfter = 2 * aloneAfter

// settleOutage begins, prolongs or ends the outage of the destination.
func (a *answers) settleOutage() {
	o := &a.outage
	switch {
	case a.alive:
		if o.active() {
			*o = outage{}
			a.to.complaint.over()
			a.logger.Info("destination is back", "destination", a.to.Name)
		}
	case a.down != nil:
		reason := classCause(publisher.ClassOf(a.down))
		if o.fail(reason, a.down, a.now) && !a.to.complaint.told(a.down) {
			a.logger.Warn("destination is held", "destination", a.to.Name, "reason", reason, "error", a.down)
		}
	default: // nothing was attempted
		o.probing = false
	}
}
