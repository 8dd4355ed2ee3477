package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// loop relays the rows of one destination for as long as this replica owns shards of the outbox. One goroutine, the
// loop's own, asks the engine what is to be done and tells it the results. Reads, workers and the settlement of the
// process do what takes time, so that reading, publishing and settling overlap. A turn of the loop blocks for nothing
// but its events: a database or a broker that does not answer keeps no other work of the destination waiting, and none
// of another destination.
type loop struct {
	*engines
	to        *Destination
	table     tableView      // as this destination sees it
	ownership ownership      // may be shared with other loops
	state     int            // number of the set of columns that keeps the destination's state
	writer    *settle.Writer // its results come by settled

	// Requests from other goroutines, guarded by the engines' mu.
	left  owner.Set // shards to be released with nothing in flight here: never one that the engine may still read
	slow  bool      // the destination keeps the loop waiting
	rings bool      // writers are to ring

	// Touched only by the loop.
	engine   *engine.Engine
	results  chan *engine.Read   // reads that have been made; has room for the two that may be under way
	workers  []*worker           // one for each lane
	answers  chan *worker        // workers whose batch is answered
	settled  chan engine.Outcome // what has become of writes
	settling int                 // number of rows whose outcome is being written
	outdated error               // why the loop ends by itself
}

// tableView is what the relay needs of an outbox table as one destination sees it. [outbox.Table] implements it, and so
// does the tests' simulation.
type tableView interface {
	engine.Table
	settle.Table
	Rehearse(context.Context, []*outbox.Row) (refused map[string]error, err error)
}

var _ tableView = (*outbox.Table)(nil)

// make makes the engine.
func (l *loop) make(limits engine.Limits) {
	c, d := l.config, l.to
	limits.Poll = c.PollInterval
	l.results = make(chan *engine.Read, 2)
	l.answers, l.settled = make(chan *worker), make(chan engine.Outcome, 2)
	l.writer = l.settlement.NewWriter(l.state, d.measured, l.settled)
	l.engine = engine.New(engine.Setup{
		MaxAttempts: int64(d.MaxAttempts), BackoffMin: d.BackoffMin, BackoffMax: d.BackoffMax,
		MaxAge: d.MaxAge, BlockFailed: d.BlockFailed, Rate: d.Rate,
		Prepare: func(r *engine.Row, now time.Time) { d.prepare(c, r, now) },
		Limits:  limits, Shards: c.Shards, Table: l.table,
		Measure: d.measured, Logger: c.Logger.With("destination", d.Name),
	})
}

// run relays until ctx ends. Then it starts nothing new, waits for the answers of what is on the wire and until they
// are written, or until work ends, and returns. It returns early if the table has changed, and then ends ctx, too. left
// is the number of rows that were published, or may have been, and could not be settled: they will be published again.
func (l *loop) run(ctx, work context.Context, end context.CancelCauseFunc) (left int, err error) {
	for i := range workers + engine.TryLanes {
		l.workers = append(l.workers, &worker{loop: l, tries: i >= workers})
	}
	err = l.turn(ctx, work, end)
	l.to.state.Store(&engine.Snapshot{})
	left, why := l.engine.Unsettled(), cmp.Or(err, errStopTime)
	switch n := publisher.UnansweredOf(l.to.Publisher); {
	case errors.Is(context.Cause(ctx), errEnded): // the publisher goes on in the next term
		why = cmp.Or(err, errEnded)
	case ctx.Err() != nil && n > left: // they are partly for rows that the engine counts
		left, why = n, errUnanswered
	}
	if left > 0 {
		l.config.Logger.Error("stopped before everything was settled: rows will be published again",
			"destination", l.to.Name, "rows", left, "error", why)
	}
	return left, err
}

// errUnanswered is why rows were left that count as not taken by a broker which fell silent, and may have arrived.
var errUnanswered = errors.New("the broker has not answered for messages that it may have")

// errStopTime is why rows were left where nothing else went wrong.
var errStopTime = errors.New("the time for a clean stop was over")

// turn runs the loop until it ends. It ends ctx when it starts nothing new.
//
// Each turn asks the engine for everything that it may want now, in an order that matters: shards first, so that
// nothing is read or handed over of a shard that is lost; writes last, since rows that are too old to be handed over
// fail in the same turn. Then it waits for one event, and reports it to the engine.
func (l *loop) turn(ctx, work context.Context, end context.CancelCauseFunc) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		changed := l.own(now)
		stops := done == nil || l.outdated != nil
		if !stops {
			l.hand(ctx, work, now)
			l.read(ctx, now)
		}
		l.engine.Writes(now, l.write) // also rows that were too old to be handed over
		if stops && l.stop(ctx, end) {
			return l.outdated
		}
		l.observe(now)
		// At most two thousand turns a second by time alone, whatever Wake answers.
		timer.Reset(max(l.engine.Wake(l.mayPublish(now), now).Sub(now), engine.ShortestPause/2))
		select {
		case <-done:
			done = nil // a nil channel is never ready, and says from now on that ctx has ended
		case <-changed:
		case r := <-l.results:
			l.taken(ctx, r)
		case w := <-l.answers:
			w.since = time.Time{}
			l.engine.Answers(w.rows, w.errs, time.Now()) //nolint:contextcheck // counters need no context
			w.rows, w.errs = nil, nil
		case o := <-l.settled:
			l.written(o)
		case source := <-l.to.hints:
			l.metrics.Wakeup(source)
			l.engine.Hint(l.to.changed.Swap(false))
		case <-timer.C:
		}
	}
}

// stop starts nothing new and goes on with what is under way. It reports whether all of that is done: reads and calls
// have ended, and outcomes have been written. When the process ends, the loop also waits for rows that another session
// keeps locked, so that nothing is published twice. At the end of a term it does not, since everything else would have
// to wait.
func (l *loop) stop(ctx context.Context, end context.CancelCauseFunc) (done bool) {
	l.engine.Stop()
	end(errEnded) // unless ctx has ended: that is why this loop stops
	ends := l.outdated != nil || errors.Is(context.Cause(ctx), errEnded)
	return !l.engine.Busy() && l.settling == 0 && (ends || l.engine.WaitsFor() == 0)
}

// slowAfter is how long an answer of a healthy broker may take. Beyond it, other destinations go on with shards that
// are to be released until this one has let go of them.
const slowAfter = 500 * time.Millisecond

// isSlow reports whether the destination keeps rows waiting.
func (l *loop) isSlow(now time.Time) bool {
	return l.engine.Down() != nil || slices.ContainsFunc(l.workers, func(w *worker) bool {
		return !w.since.IsZero() && now.Sub(w.since) > slowAfter
	})
}

// mayPublish reports whether rows may be handed to a publisher, which requires that the ownership is trusted. Reads and
// marks do not: a read harms nobody, and marks are guarded by the rows' versions.
func (l *loop) mayPublish(now time.Time) bool { return now.Before(l.ownership.Trusted()) }

// hand gives every idle worker its next batch.
func (l *loop) hand(ctx, work context.Context, now time.Time) {
	if !l.mayPublish(now) {
		return
	}
	for _, w := range l.workers {
		if !w.since.IsZero() {
			continue
		}
		if batch := l.engine.Batch(w.tries, now); len(batch) > 0 {
			w.since = now
			w.start(work, ctx, batch, l.engine.Rehearses(batch) || l.database.unwritten(l.state))
		}
	}
}

// write makes the settlement write what became of rows.
func (l *loop) write(o engine.Outcome) {
	l.settling += len(o.Rows)
	l.writer.Write(o)
}

// written takes what the settlement has written. An error means that these rows never will be written by this loop: the
// table has changed, or the time of the stop is over. The loop then ends, and they are published again.
func (l *loop) written(o engine.Outcome) {
	l.settling -= len(o.Rows)
	if o.Err != nil {
		l.outdated = o.Err
		return
	}
	l.engine.Written(o, time.Now())
}

// observe publishes the state for the gauges, readiness and the status, at most every 100 milliseconds. They never ask
// the engine itself, which only the loop may touch.
func (l *loop) observe(now time.Time) {
	if now.Sub(l.to.snapshot().At) < 100*time.Millisecond {
		return
	}
	s := l.engine.Snapshot(now)
	if l.to.paused.Load() {
		s.Down = nil
	}
	l.to.state.Store(&s)
}
