package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

const (
	// sweepPatience is how long a sweep's page may take at first: the flow of rows waits for it, and does not need it.
	// A page of 4,000 rows takes 7.5 ms where nothing is wrong.
	sweepPatience = 3 * time.Second
	// longestRead is the longest that a read may take. One that has to step over millions of dead entries, for
	// instance, completes in the end.
	longestRead = 16 * engine.StatementTimeout
)

// read begins the reads that the engine wants, each in a goroutine of its own. There are two at most, so a destination
// takes two connections of the pool for its reads.
func (l *loop) read(ctx context.Context, now time.Time) {
	for r := l.engine.Next(now); r != nil; r = l.engine.Next(now) {
		limit := l.limitOf(r.Kind)
		go func() { // the loop waits for its result
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			r.Do(limited, l.table)
			l.results <- r
		}()
	}
}

// limitOf returns how long the next read of a kind may take. One that has run out of time gets twice the time, and the
// reads after it twice as long as it took in the end. Without that, a read that has to step over the entries of a table
// that was never vacuumed would begin again and again, and never end.
func (l *loop) limitOf(kind engine.Kind) time.Duration {
	if kind == engine.Sweep {
		return max(l.patience[kind], sweepPatience)
	}
	return max(l.patience[kind], engine.StatementTimeout)
}

// taken takes the result of a read. Its error says nothing about the database if the stop has interrupted it. After an
// error all reads of the loop rest, with pauses that grow to half a second; one that ran out of time makes only its own
// kind rest.
func (l *loop) taken(ctx context.Context, r *engine.Read) {
	now, interrupted := time.Now(), ctx.Err() != nil
	if !interrupted {
		l.database.read(r.Err)
	}
	l.to.measured.Stage(measure.StageFetch, r.Took)
	l.engine.SetBell(l.doorbell.Armed())
	fresh := l.engine.Taken(r, now)
	switch {
	case outbox.Cancelled(r.Err) && !interrupted: // it says nothing about reads of other kinds
		l.patience[r.Kind] = min(2*l.limitOf(r.Kind), longestRead)
		return
	case r.Err != nil:
		l.failures++
		l.engine.Rest(now.Add(retry.Pause(l.failures)))
		if outbox.Changed(r.Err) {
			l.outdated = r.Err
		}
		return
	}
	l.failures, l.patience[r.Kind] = 0, min(l.patience[r.Kind], 2*r.Took)
	switch {
	case fresh == 0:
	case r.Kind == engine.Keys:
		l.metrics.Wakeup(measure.SourceRetry)
	default:
		l.metrics.Wakeup(measure.SourcePoll)
	}
	if r.Kind == engine.Tail {
		l.arm(l.engine.Rings())
	}
}
