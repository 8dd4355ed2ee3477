package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// read begins the reads that the engine wants, each in a goroutine of its own. There are two at most, so a destination
// takes two connections of the pool for its reads.
func (l *loop) read(ctx context.Context, now time.Time) {
	for r := l.engine.Next(now); r != nil; r = l.engine.Next(now) {
		limit := l.engine.LimitOf(r.Kind)
		go func() { // the loop waits for its result
			r.Do(ctx, limit, l.table)
			l.results <- r
		}()
	}
}

// taken takes the result of a read. Its error says nothing about the database if the stop has interrupted it.
func (l *loop) taken(ctx context.Context, r *engine.Read) {
	if ctx.Err() == nil {
		l.database.read(r.Err)
	}
	fresh := l.engine.Taken(r, l.doorbell.Armed(), time.Now())
	switch {
	case outbox.Changed(r.Err):
		l.outdated = r.Err
	case fresh == 0:
	case r.Kind == engine.Keys:
		l.metrics.Wakeup(measure.SourceRetry)
	default:
		l.metrics.Wakeup(measure.SourcePoll)
	}
	if r.Kind == engine.Tail && r.Err == nil {
		l.arm(l.engine.Rings())
	}
}
