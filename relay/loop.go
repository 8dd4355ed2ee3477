package relay

import (
	"context"
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// turn runs the loop until the engine ends. It calls ending when it starts nothing new.
func (e *engine) turn(ctx context.Context, ending func()) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer e.to.beat.Store(0)
	defer func() { e.dispatch.Report(true, time.Now()) }()
	done := ctx.Done()
	for {
		now := time.Now()
		e.to.beat.Store(now.UnixNano())
		moved := e.own()
		if done == nil || e.outdated != nil {
			if e.stop(ctx, now, ending) {
				return e.outdated
			}
		} else {
			e.publishMore(now)
			e.settleMore(now)
			e.reads.more(now)
		}
		e.observe(now)
		timer.Reset(e.sleep(now))
		select {
		case <-done:
			done = nil
		case <-moved:
		case r := <-e.reads.responses:
			if err := e.reads.taken(r); err != nil {
				e.outdated = err
			}
		case a := <-e.answers:
			e.to.measured.Stage(measure.StagePublish, a.took)
			e.dispatch.Answer(a.lane, a.rows, a.errs, time.Now())
		case o := <-e.settled:
			e.written(o)
		case source := <-e.hints:
			e.metrics.Wakeup(source)
			e.reads.hint()
		case <-timer.C:
		}
	}
}

// stop starts nothing new and goes on with what is under way. It reports whether all of that is done.
func (e *engine) stop(ctx context.Context, now time.Time, ending func()) (done bool) {
	if !e.dispatch.Stopping() {
		e.dispatch.Stop()
		ending()
	}
	if !e.abandoned {
		e.settleMore(now)
	}
	return !e.dispatch.Publishing() && e.settling == 0 && !e.reads.busy && (e.abandoned || !e.waitsForLocked(ctx))
}

// errTermOver is the cause of a context that ends because the replica no longer owns the outbox, or has not owned it
// without a break.
var errTermOver = errors.New("the ownership has ended")

// waitsForLocked reports whether the loop goes on because of rows that another session keeps locked. It goes on when
// the process ends, so that nothing is published twice. At the end of a term it does not, since everything else would
// have to wait.
func (e *engine) waitsForLocked(ctx context.Context) bool {
	n := e.dispatch.WaitsFor()
	if n == 0 {
		return false
	}
	if cause := context.Cause(ctx); e.outdated == nil && !errors.Is(cause, errTermOver) && !errors.Is(cause, errOutdated) {
		return true
	}
	e.config.Logger.Warn("the ownership has ended, or the table has changed; rows that another session keeps locked are published again",
		"rows", n)
	return false
}

// own follows the shards that this replica gains and loses.
func (e *engine) own() (moved <-chan struct{}) {
	state, moved := e.ours()
	now := time.Now()
	e.wait(e.dispatch.Slow(now))
	if left := e.dispatch.Follow(e.relayed(state.Owned), state.Leaving, now); left != (owner.Set{}) {
		e.leave(left)
	}
	return moved
}

// mayPublish reports whether rows may be handed to a publisher, which requires that the ownership is trusted, and that rows can be
// marked.
func (e *engine) mayPublish(now time.Time) bool {
	return now.Before(e.ownership.Trusted()) && !e.database.unwritable(e.state)
}

// publishMore gives every idle worker its next batch.
func (e *engine) publishMore(now time.Time) {
	if e.mayPublish(now) {
		e.dispatch.Hand(now, func(lane int, rows []*dispatch.Row) { e.batches[lane] <- rows })
	}
}

// settleMore makes the settlers write what became of rows.
func (e *engine) settleMore(now time.Time) {
	e.dispatch.Write(now, func(o dispatch.Outcome) {
		e.settling += o.Number()
		e.writer.Write(o)
	})
}

// written takes what the settlers have written. An error means that they never will.
func (e *engine) written(o dispatch.Outcome) {
	e.settling -= o.Number()
	if o.Err != nil {
		if outbox.Outdated(o.Err) {
			e.config.Logger.Error("rows cannot be written as the table is now: it is opened again, and they are published again",
				"destination", e.to.Name, "rows", o.Number(), "error", o.Err)
		}
		e.outdated, e.abandoned = o.Err, true
		return
	}
	e.reads.feed.Wrote(o.Marked, o.Took)
	if o.Slow > 0 && e.config.unconfirmed() == nil {
		e.config.Logger.Warn("rows could not be written in the time of one statement; smaller statements write them. "+
			"Look for a slow trigger, or what else makes updates slow", "rows", o.Slow)
	}
	e.dispatch.Written(o, time.Now())
}

// sleep returns how long the loop has nothing to do but wait for other goroutines.
func (e *engine) sleep(now time.Time) time.Duration {
	until := now.Add(time.Second) // Live needs to see the loop turn
	d := e.dispatch
	if d.Stopping() {
		return until.Sub(now)
	}
	earlier := func(t time.Time) {
		if t.Before(until) {
			until = t
		}
	}
	d.Next(e.mayPublish(now), now, earlier)
	e.reads.next(now, earlier)
	return max(until.Sub(now), feed.ShortestPause/2) // whatever could begin now has begun
}

// observe publishes the state for the gauges, at most every 100 milliseconds.
func (e *engine) observe(now time.Time) {
	if now.Sub(e.observed) < 100*time.Millisecond {
		return
	}
	e.observed = now
	e.dispatch.Report(false, now)
	s := e.dispatch.Snapshot()
	if e.to.paused.Load() {
		s.Down = nil
	}
	if s.Full != e.to.snapshot().Full {
		if s.Full {
			e.config.Logger.Error("no more rows are read: as many as may be in flight are published and cannot be written",
				"destination", e.to.Name, "rows", s.Stuck, "error", s.Why)
		} else {
			e.config.Logger.Info("rows are read again", "destination", e.to.Name)
		}
	}
	e.publish(s)
}
