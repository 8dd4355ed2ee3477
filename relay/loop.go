package relay

import (
	"context"
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// turn is the loop.
func (e *engine) turn(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		e.beat.Store(now.UnixNano())
		moved := e.own()
		if done == nil || e.outdated != nil {
			if !e.dispatch.stopping {
				e.dispatch.stop()
				e.ending()
			}
			if !e.abandoned {
				e.settleMore(now)
			}
			if !e.dispatch.publishing() && e.settling == 0 && !e.reading && (e.abandoned || !e.waitsForLocked(ctx)) {
				return e.outdated
			}
		} else {
			e.publishMore(now)
			e.settleMore(now)
			e.readMore(now)
		}
		e.observe(now)
		timer.Reset(e.sleep(now))
		select {
		case <-done:
			done = nil
		case <-moved:
		case r := <-e.responses:
			e.taken(r)
		case a := <-e.answers:
			e.metrics.stage(e.to, stagePublish, a.took)
			e.dispatch.answer(a.lane, a.rows, a.errs, time.Now())
		case o := <-e.settled:
			e.settling -= len(o.accepted) + len(o.refused)
			if o.err != nil {
				if outbox.Outdated(o.err) {
					e.logger.Error("rows cannot be written as the table is now: it is opened again, and they are published again",
						"rows", len(o.accepted)+len(o.refused), "error", o.err)
				}
				e.outdated, e.abandoned = o.err, true
				continue
			}
			e.written(o)
		case source := <-e.hints:
			e.metrics.wakeup(source)
			e.feed.Hint()
			e.due.Ask()
			e.dispatch.failures.ask()
		case <-timer.C:
		}
	}
}

// errTermOver is the cause of a context that ends because the replica owns the outbox no longer, or not without a break.
var errTermOver = errors.New("the ownership has ended")

// waitsForLocked reports whether the loop goes on because of rows that somebody keeps locked. It does when the process ends, so
// that nothing is published twice. At the end of a term that would keep everything else waiting.
func (e *engine) waitsForLocked(ctx context.Context) bool {
	n := len(e.dispatch.locked.accepted) + len(e.dispatch.locked.refused)
	if n == 0 {
		return false
	}
	if cause := context.Cause(ctx); e.outdated == nil && !errors.Is(cause, errTermOver) && !errors.Is(cause, errOutdated) {
		return true
	}
	e.logger.Warn("the ownership has ended, or the table has changed; rows that somebody else keeps locked are published again", "rows", n)
	return false
}

// own follows the shards that come to this replica and leave it.
func (e *engine) own() (moved <-chan struct{}) {
	state, moved := e.ours()
	e.wait(e.dispatch.slow(time.Now()))
	e.dispatch.own(e.relayed(state.Owned))
	e.dispatch.limiter.Own(e.dispatch.shards.active.Len(), time.Now())
	if left := e.dispatch.left(state.Leaving, time.Now()); left != (owner.Set{}) {
		e.leave(left)
	}
	return moved
}

// publishMore gives every idle worker its next batch. After an outage each lane is the first to try in turn.
func (e *engine) publishMore(now time.Time) {
	if !now.Before(e.ownership.Trusted()) {
		return
	}
	d := e.dispatch
	for n := range d.lanes {
		i := (d.turn + n) % len(d.lanes)
		if rows := d.batch(i, now); rows != nil {
			d.turn = i + 1
			d.lanes[i].since = now
			e.batches[i] <- rows
		}
	}
}

// settleMore lets the settlers write what became of rows. What could not be written before is tried on its own.
func (e *engine) settleMore(now time.Time) {
	d := e.dispatch
	d.failedLog.flush(now)
	if !d.retrying() {
		o, ok := d.locked.retry(now)
		if !ok {
			o, ok = d.rejected.retry(now)
		}
		if ok {
			e.settle(o)
		}
	}
	if len(d.settle)+len(d.refuse) == 0 {
		return
	}
	e.settle(outcome{accepted: d.settle, refused: d.refuse, careful: d.locked.careful(now)})
	d.settle, d.refuse = nil, nil
}

func (e *engine) settle(o outcome) {
	e.settling += len(o.accepted) + len(o.refused)
	e.settlement.write(e.writer, o)
}

func (e *engine) written(o outcome) {
	now := time.Now()
	e.feed.Wrote(o.marked, o.took)
	if o.slow > 0 {
		e.logger.Warn("rows could not be written in the time of one statement; smaller statements write them. "+
			"Look for a slow trigger, or what else makes updates slow", "rows", o.slow)
	}
	if len(o.unwritable) > 0 && now.Sub(e.unwritable) > time.Minute {
		e.unwritable = now
		e.logger.Error("refused rows cannot be written, since the table does not take the change; their keys wait, and they are tried again",
			"rows", len(o.unwritable), "error", o.why)
	}
	e.dispatch.keepLocked(&o, now)
	e.metrics.relayed(e.dispatch.settled(o, now), now)
	e.dispatch.refusedWritten(o, now)
	switch o.again {
	case againLocked:
		e.dispatch.retriedLocked()
	case againRejected:
		e.dispatch.retriedRejected(len(o.rejected) == 0, now)
	}
}

// sleep returns how long there is nothing to do but wait for others.
func (e *engine) sleep(now time.Time) time.Duration {
	until := now.Add(time.Second) // livez wants to see the loop turn
	earlier := func(t time.Time) {
		if t.Before(until) {
			until = t
		}
	}
	d := e.dispatch
	if d.stopping {
		return until.Sub(now)
	}
	if len(d.rejected.rows) > 0 && !d.retrying() {
		earlier(d.rejected.due)
	}
	if d.locked.any() && !d.retrying() {
		earlier(d.locked.due)
	}
	if due, ok := d.nextTry(); ok && now.Before(e.ownership.Trusted()) {
		earlier(later(due, d.limiter.Next(now)))
	}
	if due, ok := d.nextSend(now); ok && now.Before(e.ownership.Trusted()) {
		earlier(due)
	}
	if !e.reading {
		if due, ok := d.failures.wait(); ok {
			earlier(later(later(due, e.patience[readFailed].rest), e.retryRead))
		}
		if d.shards.active == (owner.Set{}) {
			return max(until.Sub(now), feed.ShortestPause/2) // nothing else is read
		}
		rows, bytes := e.room.left(d)
		if due, ok := d.nextTrial(); ok && !e.feed.Late.Lowered() && rows > 0 && bytes > 0 {
			earlier(later(later(later(due, d.triable()), e.patience[readTrial].rest), e.retryRead))
		}
		if e.scanWanted() && bytes > 0 && e.feed.Worth(rows) {
			earlier(later(later(e.scans.rest, e.patience[readScan].rest), e.retryRead))
		}
		if due, ok := e.due.Wait(e.feed.Glancing(now)); ok && bytes > 0 && e.feed.Worth(rows) {
			earlier(later(later(due, e.patience[readDue].rest), e.retryRead))
		}
		if bytes > 0 && e.feed.Worth(rows) {
			earlier(later(later(e.feed.Wait(now), e.patience[feed.Walk].rest), e.retryRead))
		}
	}
	return max(until.Sub(now), feed.ShortestPause/2) // whatever could begin now has begun
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// observe publishes the state for the gauges, not more often than anybody looks.
func (e *engine) observe(now time.Time) {
	if now.Sub(e.observed) < 100*time.Millisecond {
		return
	}
	e.observed = now
	d := e.dispatch
	d.notices.others(e.logger, now)
	s := snapshot{inFlight: len(d.inFlight), blocked: d.blocked(), held: d.heldRows(), holds: d.holds.shown(), note: d.heldTopics()}
	if d.outage.active() && !e.paused {
		s.down = d.outage.err
	}
	if s.stuck, s.full = e.dispatch.stuck(), e.dispatch.clogged(); len(e.dispatch.rejected.rows)+e.dispatch.rejected.trying > 0 {
		s.why = e.dispatch.rejected.why
	}
	if s.full != e.full {
		e.full = s.full
		if e.full {
			e.logger.Error("no more rows are read: as many as OUTBOX_MAX_IN_FLIGHT or OUTBOX_MAX_IN_FLIGHT_BYTES allows are published "+
				"and cannot be written", "rows", s.stuck, "error", s.why)
		} else {
			e.logger.Info("rows are read again")
		}
	}
	e.publish(s)
}
