package relay

import (
	"errors"
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
	d.metrics.unexpectedDuplicates(to.Destination, a.unexpected)
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

	unexpected int // duplicates of rows that were not sent before
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
		if d, ok := errors.AsType[*publisher.Duplicate](err); ok {
			a.duplicate(r, d)
		}
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
		a.sent.noteUnknown(r)
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
	a.sent.noteAccepted(r)
	a.settle = append(a.settle, r)
	a.leaveLane(r)
	if a.ordinal && !r.key.keyless {
		a.latest.note(r.key.hash(), r.Position.Ordinal)
	}
	if h := a.topics[topicOf(r)]; h.active() {
		a.release(h)
		a.repeats.relent(topicOf(r))
		a.tell(topicBack, topicOf(r), "", nil, a.now)
	}
	if a.member(r) {
		b := r.block
		if b.part != nil {
			a.partGoes(b.part)
		}
		b.failures, b.part = 0, nil
		if b.trying--; b.trying == 0 && b.phase == trying {
			b.want = min(2*b.want, wantAll)
			a.finish(b)
		}
	}
}

// refused lets the refusal be written; until then the row stays in flight and its key waits.
func (a *answers) refused(r *row, err error, failed bool) {
	b := a.block(r, causeRetry)
	b.phase, b.failures = writing, 0
	a.blocks.blame(b, r)
	b.refusals++
	r.block, r.generation = b, b.generation
	a.leaveLane(r)
	a.refuse = append(a.refuse, refusal{row: r, err: err, failed: failed})
}

// requeue publishes the row again, with the same id and before the rows behind it.
func (a *answers) requeue(r *row) {
	if !a.shards.active.Has(r.Shard) {
		a.drop(r) // its next owner publishes it again
		return
	}
	b := a.blocks.byKey[r.key]
	if b == nil && a.isPassed(r) {
		a.drop(r)
		return
	}
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
	if b != nil && b.blamed == r.ID() && r.unknown >= refuseAfter && a.to.accepted > b.accepted {
		b.unknown = 0
		a.refused(r, publisher.RefusedError("no answer alone", "published alone and again without an answer: %w", err), a.keepFailures && r.attempt+1 > r.destination.MaxAttempts)
		return
	}
	b = a.block(r, causeUnavailable)
	a.blocks.blame(b, r)
	b.unknown, b.accepted = r.unknown, a.to.accepted
	b.failures++
	a.blocks.waitUntil(b, a.now.Add(pauseAmong(a.causes(), b.failures)))
	a.drop(r)
}

// refuseAfter is how many publishes without an answer, the last of them alone, count as a refusal.
const refuseAfter = 2 * aloneAfter

// settleHold begins, prolongs or ends the hold of the destination.
func (a *answers) settleHold() {
	h := &a.to.hold
	switch {
	case a.alive:
		if !h.active() && len(h.blocks) > 0 { // only some of the batch were answered so
			a.release(h)
		}
		if h.active() {
			a.release(h)
			a.to.complaint.over()
			a.logger.Info("destination is back", "destination", a.to.Name)
		}
	case a.down != nil:
		began := h.fail(a.reason, a.down, 0, a.now)
		a.probeLater(h)
		if began && !a.to.complaint.told(a.down) {
			a.logger.Warn("destination is held", "destination", a.to.Name, "reason", a.reason, "error", a.down)
		}
	default: // nothing was attempted
		h.probing = false
		if h.active() {
			a.probeLater(h)
		}
	}
}

// probeLater lets one of the keys that wait for the destination try it, when its time has come. With one destination its queues do.
func (a *answers) probeLater(h *hold) {
	if !a.single() {
		a.blocks.probes.set(h)
	}
}
