package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// reads are the reads of a loop that are under way, each in a goroutine of its own. There are two at most, so a
// destination takes two connections of the pool for its reads.
type reads struct {
	results  chan result
	patience map[engine.Kind]time.Duration // how long a read of a kind may take; doubled by one that took too long
	failures int                           // reads that failed in a row
}

// result is a read that has been made.
type result struct {
	*engine.Read
	err       error
	cancelled bool // the read was interrupted, which says nothing about the database
	took      time.Duration
}

const (
	// sweepPatience is how long a sweep's page may take at first: the flow of rows waits for it, and does not need it.
	sweepPatience = 3 * time.Second
	// longestRead is the longest that a read may take. One that has to step over millions of dead entries, for
	// instance, completes in the end.
	longestRead = 16 * engine.StatementTimeout
)

// leastPatience returns how long a read of a kind may take at least.
func leastPatience(kind engine.Kind) time.Duration {
	if kind == engine.Sweep {
		return sweepPatience
	}
	return engine.StatementTimeout
}

func newReads() reads {
	return reads{results: make(chan result, 2), patience: map[engine.Kind]time.Duration{}}
}

// read begins the reads that the engine wants.
func (l *loop) read(ctx context.Context, now time.Time) {
	for r := l.engine.Next(now); r != nil; r = l.engine.Next(now) {
		limit := max(l.reads.patience[r.Kind], leastPatience(r.Kind))
		go func() { // the loop waits for its result
			started := time.Now()
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			err := r.Do(limited, l.table)
			l.reads.results <- result{r, err, ctx.Err() != nil, time.Since(started)}
		}()
	}
}

// taken takes the result of a read.
func (l *loop) taken(r result) {
	now := time.Now()
	l.to.measured.Stage(measure.StageFetch, r.took)
	if !r.cancelled {
		l.database.read(r.err)
	}
	l.engine.SetBell(l.doorbell.Up(), l.doorbell.Armed())
	fresh := l.engine.Taken(r.Read, r.err, now)
	if r.err != nil {
		l.failed(r, now)
		return
	}
	l.reads.failures = 0
	l.reads.patience[r.Kind] = min(l.reads.patience[r.Kind], 2*r.took)
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

// failed notes that a read has failed. One that ran out of time says nothing about the others: it is repeated with
// twice the time. The error of a table that has changed ends the loop.
func (l *loop) failed(r result, now time.Time) {
	if outbox.Cancelled(r.err) && !r.cancelled {
		l.reads.patience[r.Kind] = min(2*max(l.reads.patience[r.Kind], leastPatience(r.Kind)), longestRead)
		return
	}
	l.reads.failures++
	l.engine.Rest(now.Add(retry.Pause(l.reads.failures)))
	if outbox.Changed(r.err) {
		l.outdated = r.err
	}
}
