package relay

import (
	"context"
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/owner"
)

// loop is a run of the engine.
type loop struct {
	*engine
	dispatch *dispatch
	feed     *feed

	requests  chan request
	responses chan response
	outcomes  chan outcome
	settled   chan outcome
	batches   [][]chan []*row // by destination and worker
	answers   chan answered

	reading     bool
	walkNext    bool // the walk has the next turn, if it has anything to read
	patience    patiences
	settling    int // statements under way
	publishing  int
	unchecked   *response // a page that is taken when the failed rows have been read
	retryRead   time.Time
	failedReads int
	changed     error // why the loop ends by itself
	abandoned   bool  // nothing can be written any more
	observed    time.Time
}

// turn is the loop.
func (l *loop) turn(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		l.beat.Store(now.UnixNano())
		moved := l.own()
		if done == nil || l.changed != nil {
			if !l.dispatch.stopping {
				l.dispatch.stop()
			}
			if !l.abandoned {
				l.settleMore(now)
			}
			if l.publishing == 0 && l.settling == 0 && !l.reading && (l.abandoned || !l.waitsForLocked(ctx)) {
				return l.changed
			}
		} else {
			l.publishMore(now)
			l.settleMore(now)
			l.readMore(now)
		}
		l.observe(now)
		timer.Reset(l.sleep(now))
		select {
		case <-done:
			done = nil
		case <-moved:
		case r := <-l.responses:
			l.taken(r)
		case a := <-l.answers:
			l.publishing--
			l.metrics.stage(stagePublish, a.took)
			l.dispatch.answer(a.worker.destination, a.worker.index, a.rows, a.errs, time.Now())
		case o := <-l.settled:
			l.settling--
			if o.err != nil {
				l.changed, l.abandoned = o.err, true
				continue
			}
			l.written(o)
		case source := <-l.wakes:
			l.metrics.wakeup(source)
			l.feed.hint()
			l.dispatch.failures.ask()
		case <-timer.C:
		}
	}
}

// errTermOver is the cause of a context that ends because the replica owns the outbox no longer, or not without a break.
var errTermOver = errors.New("the ownership has ended")

// waitsForLocked reports whether the loop goes on because of rows that somebody keeps locked. It does when the process ends, so
// that nothing is published twice. At the end of a term that would keep everything else waiting.
func (l *loop) waitsForLocked(ctx context.Context) bool {
	n := len(l.dispatch.locked.accepted) + len(l.dispatch.locked.refused)
	if n == 0 {
		return false
	}
	if cause := context.Cause(ctx); l.changed == nil && !errors.Is(cause, errTermOver) && !errors.Is(cause, errOutdated) {
		return true
	}
	l.logger.Warn("the ownership has ended, or the table has changed; rows that somebody else keeps locked are published again", "rows", n)
	return false
}

// own follows the shards that come to this replica and leave it.
func (l *loop) own() (moved <-chan struct{}) {
	state, moved := l.ownership.State()
	l.dispatch.own(state.Owned)
	if left := l.dispatch.left(state.Leaving, time.Now()); left != (owner.Set{}) {
		l.ownership.Left(left)
	}
	return moved
}

// publishMore gives every idle worker its next batch.
func (l *loop) publishMore(now time.Time) {
	if !now.Before(l.ownership.Trusted()) {
		return
	}
	for _, to := range l.dispatch.destinations {
		for i := range l.workers {
			if rows := l.dispatch.batch(to, i, now); rows != nil {
				l.publishing++
				l.batches[to.index][i] <- rows
			}
		}
	}
}

// settleMore lets a settler write what has gathered while all were busy. Beside one that is writing, another begins
// only with two batches: small statements cost the database more a row.
func (l *loop) settleMore(now time.Time) {
	d := l.dispatch
	d.retryRejected(now)
	d.retryLocked(now)
	d.failedLog.flush(now)
	n := len(d.settle) + len(d.refuse)
	if n == 0 || l.settling == settlers || l.settling > 0 && n < 2*l.limits.Batch {
		return
	}
	o := outcome{accepted: d.settle, refused: d.refuse, careful: d.locked.careful(now)}
	d.settle, d.refuse = nil, nil
	l.settling++
	l.outcomes <- o
}

func (l *loop) written(o outcome) {
	now := time.Now()
	if o.why != nil {
		l.logger.Error("rows cannot be written: a constraint or trigger of the table is in the way; they are tried again",
			"relayed", len(o.rejected), "refused", len(o.unwritable), "error", o.why)
	}
	l.dispatch.keepLocked(&o, now)
	l.metrics.relayed(l.dispatch.settled(o, now), now)
	l.dispatch.refusedWritten(o, now)
}

// sleep returns how long there is nothing to do but wait for others.
func (l *loop) sleep(now time.Time) time.Duration {
	until := now.Add(time.Second) // livez wants to see the loop turn
	earlier := func(t time.Time) {
		if t.Before(until) {
			until = t
		}
	}
	d := l.dispatch
	if d.stopping {
		return until.Sub(now)
	}
	if len(d.rejected) > 0 {
		earlier(d.rejectedDue)
	}
	if d.locked.any() {
		earlier(d.locked.due)
	}
	if due, ok := d.nextProbe(); ok && now.Before(l.ownership.Trusted()) {
		earlier(due)
	}
	if !l.reading {
		if due, ok := d.failures.wait(); ok {
			earlier(maxTime(maxTime(due, l.patience.failed.rest), l.retryRead))
		}
		if due, ok := d.nextReread(); ok && !l.feed.lowered && len(d.inFlight) < l.limits.Rows && d.bytes < l.limits.Bytes {
			earlier(maxTime(maxTime(due, l.patience.reread.rest), l.retryRead))
		}
		if rows, bytes := d.room(); d.shards.active != (owner.Set{}) && bytes > 0 && rows >= l.feed.least {
			earlier(maxTime(maxTime(l.feed.wait(now), l.patience.walk.rest), l.retryRead))
		}
	}
	return max(until.Sub(now), shortestPause/2) // whatever could begin now has begun
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// observe publishes the state for the gauges, not more often than anybody looks.
func (l *loop) observe(now time.Time) {
	if now.Sub(l.observed) < 100*time.Millisecond {
		return
	}
	l.observed = now
	held := l.dispatch.held()
	s := snapshot{inFlight: len(l.dispatch.inFlight), blocked: l.dispatch.blocked(held), held: held, down: map[*Destination]error{}, topics: l.dispatch.heldTopics()}
	for _, to := range l.dispatch.destinations {
		if to.hold.active() {
			s.down[to.Destination] = to.hold.err
		}
	}
	l.metrics.observe(s)
}
