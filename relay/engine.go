package relay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/owner"
)

// Limits bound what the relay holds in memory.
type Limits struct {
	Batch int   // rows in a read and in a publish
	Rows  int   // in flight
	Bytes int64 // in flight; a larger row goes alone

	keys     int           // remembered as blocked one by one, where it is not the default
	patience time.Duration // how long a shard that is to be given back waits for rows that somebody keeps locked
}

func (l Limits) blocked() int {
	if l.keys > 0 {
		return l.keys
	}
	return maxBlocked
}

// engine relays rows for as long as this replica owns the outbox. Its loop is the one goroutine that
// touches the feed and the dispatch; a reader, the settlers and the workers do what takes time, one thing
// each, so that reading, publishing and settling overlap.
type engine struct {
	table        Table
	destinations []*Destination
	limits       Limits
	interval     time.Duration // the longest pause between two polls
	idlePause    time.Duration // the same while nothing has come for a while and each writer would ring
	workers      int           // for each destination
	ownership    ownership
	shards       int           // in all
	wakes        <-chan string // sources of hints that there are new rows
	logger       *slog.Logger
	metrics      *metrics
	tracer       trace.Tracer
	database     *database
	beat         *atomic.Int64 // when the loop turned last
	doorbell     doorbell
	stopTimeout  time.Duration
}

// ownership says which shards are ours, and until when. [owner.Owner] is it.
type ownership interface {
	State() (owner.State, <-chan struct{})
	Trusted() time.Time // nothing is written to a broker after this time
	Left(owner.Set)     // nothing of these is in flight any more
}

// doorbell lets writers ring; see [outbox.Listener].
type doorbell interface {
	Up() bool
	Arm(bool)         // each writer is to ring, or none need
	Armed() time.Time // since when each does; zero if that is not so
}

// run relays until ctx ends. Then it starts nothing new, waits for the answers of what is on the wire and
// until those are written, at most for the stop timeout, and returns. It returns early when the table is no
// longer what it was. left is how many rows were published, or may have been, and could not be settled: they will be published again.
func (e *engine) run(ctx context.Context) (left int, err error) { return e.loop().run(ctx) }

// loop makes a loop that has not begun.
func (e *engine) loop() *loop {
	l := &loop{engine: e, dispatch: newDispatch(e.limits, e.destinations, e.workers, e.shards, e.table, e.logger, e.metrics),
		feed: newFeed(e.table, e.limits, e.interval, time.Now()), room: room{limits: e.limits, most: e.limits.Bytes},
		patience: newPatiences(), requests: make(chan request), responses: make(chan response),
		outcomes: make(chan outcome), settled: make(chan outcome), answers: make(chan answered)}
	l.feed.leftOut = l.dispatch.leftOut
	l.feed.idlePause = max(e.interval, e.idlePause)
	if e.table.Delays() { // nobody rings when a row becomes due
		l.feed.idlePause = max(e.interval, min(e.idlePause, sweepOften))
	}
	return l
}

// run turns the loop with everything that works for it.
func (l *loop) run(ctx context.Context) (left int, err error) {
	// What is under way when ctx ends goes on until it is done or the stop timeout is over.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(l.stopTimeout, abandon) })()
	l.ending = func() { time.AfterFunc(l.stopTimeout, abandon) } // when the table has changed, too

	var group sync.WaitGroup
	group.Go(func() { l.read(ctx) })
	for range settlers {
		group.Go(func() {
			s := settler{table: l.table, database: l.database, metrics: l.metrics, limit: statementTimeout}
			s.run(work, l.outcomes, l.settled)
		})
	}
	for _, to := range l.dispatch.destinations {
		var lanes []chan []*row
		for i := range l.workers {
			w := &worker{destination: to, index: i, trusted: l.ownership.Trusted, tracer: l.tracer, logger: l.logger}
			batches := make(chan []*row)
			group.Go(func() { w.run(work, batches, l.answers) })
			lanes = append(lanes, batches)
		}
		l.batches = append(l.batches, lanes)
	}
	err = l.turn(ctx)
	close(l.requests)
	close(l.outcomes)
	for _, lanes := range l.batches {
		for _, batches := range lanes {
			close(batches)
		}
	}
	group.Wait()
	l.database.stopped()
	l.metrics.observe(snapshot{})
	if left = l.dispatch.unsettled(); left > 0 {
		l.logger.Error("stopped before everything was settled: rows will be published again", "rows", left, "error", err)
	}
	return left, err
}
