package relay

import (
	"context"
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// loop is a run of the engine.
type loop struct {
	*engine
	dispatch *dispatch
	feed     *feed
	due      due

	requests  chan request
	responses chan response
	settled   chan outcome
	batches   []chan []*row // by lane
	answers   chan answered

	room        room
	reading     bool
	turnOf      int  // the kind of read that has the next turn, if it has anything to read
	looked      bool // the walk has looked for late rows since the last read of heads
	whole       bool // the walk began at the very beginning
	scans       scan
	patience    patiences
	settling    int       // rows of which the outcome is being written
	retrying    bool      // one of them could not be written before
	unwritable  time.Time // when the log last told of refusals that cannot be written
	publishing  int
	unchecked   *response // a page that is taken when the failed rows have been read
	retryRead   time.Time
	failedReads int
	changed     error  // why the loop ends by itself
	abandoned   bool   // nothing can be written any more
	ending      func() // bounds what is under way from now on
	full        bool   // the log has told that nothing is read for what cannot be written
	observed    time.Time
	paused      bool // nothing is published to the destination
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
				l.ending()
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
			l.metrics.stage(l.to, stagePublish, a.took)
			l.dispatch.answer(a.worker.lane, a.rows, a.errs, time.Now())
		case o := <-l.settled:
			l.settling -= len(o.accepted) + len(o.refused)
			if o.err != nil {
				if outbox.Outdated(o.err) {
					l.logger.Error("rows cannot be written as the table is now: it is opened again, and they are published again",
						"rows", len(o.accepted)+len(o.refused), "error", o.err)
				}
				l.changed, l.abandoned = o.err, true
				continue
			}
			l.written(o)
		case source := <-l.wakes:
			l.metrics.wakeup(source)
			l.feed.hint()
			l.due.ask()
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
	l.ownership.Slow(l.dispatch.slow(time.Now()))
	l.dispatch.own(l.relayed(state.Owned))
	l.dispatch.limiter.own(l.dispatch.shards.active.Len(), time.Now())
	if left := l.dispatch.left(state.Leaving, time.Now()); left != (owner.Set{}) {
		l.ownership.Left(left)
	}
	return moved
}

// publishMore gives every idle worker its next batch. After an outage each lane is the first to try in turn.
func (l *loop) publishMore(now time.Time) {
	if !now.Before(l.ownership.Trusted()) {
		return
	}
	d := l.dispatch
	for n := range d.lanes {
		i := (d.turn + n) % len(d.lanes)
		if rows := d.batch(i, now); rows != nil {
			d.turn = i + 1
			d.lanes[i].since = now
			l.publishing++
			l.batches[i] <- rows
		}
	}
}

// settleMore lets the settlers write what became of rows. What could not be written before is tried on its own.
func (l *loop) settleMore(now time.Time) {
	d := l.dispatch
	d.failedLog.flush(now)
	if !l.retrying {
		o, ok := d.locked.retry(now)
		if !ok {
			o, ok = d.rejected.retry(now)
		}
		if ok {
			l.retrying = true
			l.settle(o)
		}
	}
	if len(d.settle)+len(d.refuse) == 0 {
		return
	}
	l.settle(outcome{accepted: d.settle, refused: d.refuse, careful: d.locked.careful(now)})
	d.settle, d.refuse = nil, nil
}

func (l *loop) settle(o outcome) {
	l.settling += len(o.accepted) + len(o.refused)
	l.settlement.write(l.state, o, l.settled)
}

func (l *loop) written(o outcome) {
	now := time.Now()
	l.feed.written(o.marked, o.took)
	if o.slow > 0 {
		l.logger.Warn("rows could not be written in the time of one statement; smaller statements write them. "+
			"Look for a slow trigger, or what else makes updates slow", "rows", o.slow)
	}
	if len(o.unwritable) > 0 && now.Sub(l.unwritable) > time.Minute {
		l.unwritable = now
		l.logger.Error("refused rows cannot be written, since the table does not take the change; their keys wait, and they are tried again",
			"rows", len(o.unwritable), "error", o.why)
	}
	l.dispatch.keepLocked(&o, now)
	l.metrics.relayed(l.dispatch.settled(o, now), now)
	l.dispatch.refusedWritten(o, now)
	switch o.again {
	case againLocked:
		l.dispatch.retriedLocked()
	case againRejected:
		l.dispatch.retriedRejected(len(o.rejected) == 0, now)
	}
	l.retrying = l.retrying && o.again == fresh
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
	if len(d.rejected.rows) > 0 && !l.retrying {
		earlier(d.rejected.due)
	}
	if d.locked.any() && !l.retrying {
		earlier(d.locked.due)
	}
	if due, ok := d.nextTry(); ok && now.Before(l.ownership.Trusted()) {
		earlier(maxTime(due, d.limiter.next(now)))
	}
	if due, ok := d.nextSend(now); ok && now.Before(l.ownership.Trusted()) {
		earlier(due)
	}
	if !l.reading {
		if due, ok := d.failures.wait(); ok {
			earlier(maxTime(maxTime(due, l.patience.failed.rest), l.retryRead))
		}
		if d.shards.active == (owner.Set{}) {
			return max(until.Sub(now), shortestPause/2) // nothing else is read
		}
		rows, bytes := l.room.left(d)
		if due, ok := d.nextTrial(); ok && !l.feed.late.Lowered() && rows > 0 && bytes > 0 {
			earlier(maxTime(maxTime(maxTime(due, d.triable()), l.patience.trial.rest), l.retryRead))
		}
		if l.scanWanted() && bytes > 0 && rows >= l.feed.least {
			earlier(maxTime(maxTime(l.scans.rest, l.patience.scan.rest), l.retryRead))
		}
		if due, ok := l.due.wait(l.feed.glancing(now)); ok && bytes > 0 && rows >= l.feed.least {
			earlier(maxTime(maxTime(due, l.patience.due.rest), l.retryRead))
		}
		if bytes > 0 && rows >= l.feed.least {
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
	d := l.dispatch
	d.notices.others(l.logger, now)
	s := snapshot{inFlight: len(d.inFlight), blocked: d.blocked(), held: d.heldRows(), holds: d.holds.shown(), note: d.heldTopics()}
	if d.outage.active() && !l.paused {
		s.down = d.outage.err
	}
	if s.stuck, s.full = l.dispatch.stuck(), l.dispatch.clogged(); len(l.dispatch.rejected.rows)+l.dispatch.rejected.trying > 0 {
		s.why = l.dispatch.rejected.why
	}
	if s.full != l.full {
		l.full = s.full
		if l.full {
			l.logger.Error("no more rows are read: as many as OUTBOX_MAX_IN_FLIGHT or OUTBOX_MAX_IN_FLIGHT_BYTES allows are published "+
				"and cannot be written", "rows", s.stuck, "error", s.why)
		} else {
			l.logger.Info("rows are read again")
		}
	}
	l.publish(s)
}
