package relay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// Limits bound what the relay holds in memory.
type Limits struct {
	Batch int   // rows in a read and in a publish
	Rows  int   // in flight
	Bytes int64 // in flight; a larger row goes alone

	keys     int           // that wait and are remembered one by one, where it is not the default
	patience time.Duration // how long a shard that is to be given back waits for rows that somebody keeps locked
}

// remembered is how many keys that wait are remembered one by one.
func (l Limits) remembered() int {
	if l.keys > 0 {
		return l.keys
	}
	return mostWaits
}

// engine relays the rows of one destination for as long as this replica owns shards of the outbox. Its loop is the one goroutine that
// touches the feed and the dispatch; a reader and the workers, and the settlers of the process, do what takes time, one thing
// each, so that reading, publishing and settling overlap.
type engine struct {
	table      Table // as this destination sees it
	to         *Destination
	limits     Limits
	interval   time.Duration // the longest pause between two polls
	idlePause  time.Duration // the same while nothing has come for a while and each writer would ring
	workers    int
	ownership  *share
	settlement *settlement
	state      int           // which of its sets of columns
	shards     int           // in all
	wakes      <-chan string // sources of hints that there are new rows
	logger     *slog.Logger
	metrics    *metrics
	tracer     trace.Tracer
	database   *database
	beat       *atomic.Int64 // when the loop turned last
	stopTime   time.Duration
}

// ownership says which shards are ours, and until when.
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

// loop makes a loop that has not begun.
func (e *engine) loop() *loop {
	l := &loop{engine: e, dispatch: newDispatch(e.limits, e.to, e.workers, e.shards, e.table, e.logger, e.metrics),
		feed: newFeed(e.table, e.limits, e.interval, time.Now()), due: due{reads: e.table.ReadsDue(), pause: dueRest}, room: room{limits: e.limits, most: e.limits.Bytes},
		patience: newPatiences(), requests: make(chan request), responses: make(chan response),
		settled: make(chan outcome, settlers), answers: make(chan answered)}
	l.feed.late = l.dispatch.late
	l.feed.idlePause = max(e.interval, e.idlePause)
	if e.table.Delays() { // nobody rings when a row becomes due
		l.feed.idlePause = max(e.interval, min(e.idlePause, sweepOften))
	}
	return l
}

// run relays until ctx ends. Then it starts nothing new, waits for the answers of what is on the wire and
// until those are written, at most for the stop timeout, and returns. It returns early when the table is no
// longer what it was. left is how many rows were published, or may have been, and could not be settled: they will be published again.
func (l *loop) run(ctx context.Context) (left int, err error) {
	// What is under way when ctx ends goes on until it is done or the stop timeout is over.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(l.stopTime, abandon) })()
	l.ending = func() { // when the table has changed, too
		time.AfterFunc(l.stopTime, abandon)
		l.settlement.ending()
	}

	var group sync.WaitGroup
	group.Go(func() { l.read(ctx) })
	for i := range l.dispatch.lanes {
		w := &worker{destination: l.to, lane: i, trusted: l.ownership.Trusted, tracer: l.tracer, logger: l.logger}
		batches := make(chan []*row)
		group.Go(func() { w.run(work, batches, l.answers) })
		l.batches = append(l.batches, batches)
	}
	err = l.turn(ctx)
	close(l.requests)
	for _, batches := range l.batches {
		close(batches)
	}
	group.Wait()
	l.publish(snapshot{})
	if left = l.dispatch.unsettled(); left > 0 {
		l.logger.Error("stopped before everything was settled: rows will be published again",
			"destination", l.to.Name, "rows", left, "error", err)
	}
	return left, err
}

// publish tells others what the state is.
func (l *loop) publish(s snapshot) { l.metrics.observe(l.to, s) }
