package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
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
	*engines
	to     *Destination
	table  Table  // as this destination sees it
	limits Limits // its share
	writer *writer
	beat   *atomic.Int64
	hints  chan string

	// What others ask of it, under the engines' mu.
	left  owner.Set // of the shards that are to be given back, those of which it has nothing in flight
	slow  bool      // its destination keeps it waiting
	armed bool      // each writer is to ring

	// The loop's own.
	dispatch    *dispatch
	feed        *feed.Feed
	due         feed.Due
	requests    chan read
	responses   chan read
	settled     chan outcome
	batches     []chan []*row // by lane
	answers     chan answered
	room        room
	reading     bool
	turnOf      int  // the kind of read that has the next turn, if it has anything to read
	looked      bool // the walk has looked for late rows since the last read of heads
	whole       bool // the walk began at the very beginning
	scans       scan
	patience    map[feed.Kind]*patience
	settling    int       // rows of which the outcome is being written
	unwritable  time.Time // when the log last told of refusals that cannot be written
	unchecked   *read     // a page that is taken when the failed rows have been read
	retryRead   time.Time
	failedReads int
	outdated    error  // why the loop ends by itself
	abandoned   bool   // nothing can be written any more
	ending      func() // bounds what is under way from now on
	full        bool   // the log has told that nothing is read for what cannot be written
	observed    time.Time
	paused      bool // nothing is published to the destination
}

// nowhereInterval is how often it is looked for rows that no destination takes.
const nowhereInterval = time.Second

// newEngine makes an engine that has not begun.
func newEngine(es *engines, to *Destination, table Table, limits Limits, state int, beat *atomic.Int64) *engine {
	interval := es.interval
	if to.Name == nowhereName {
		interval = max(interval, nowhereInterval)
	}
	e := &engine{engines: es, to: to, table: table, limits: limits, beat: beat, hints: make(chan string, 1),
		dispatch: newDispatch(limits, to, es.workers, es.shards, table, es.logger, es.metrics),
		feed:     feed.New(table, limits.Batch, limits.Rows, interval, es.idlePause, time.Now()), due: feed.NewDue(table.ReadsDue()), room: room{limits: limits, most: limits.Bytes},
		patience: newPatiences(), requests: make(chan read), responses: make(chan read),
		settled: make(chan outcome, settlers), answers: make(chan answered)}
	e.writer = &writer{state: state, limits: limits, result: e.settled}
	e.dispatch.late = e.feed.Late
	return e
}

// run relays until ctx ends. Then it starts nothing new, waits for the answers of what is on the wire and
// until those are written, at most for the stop timeout, and returns. It returns early when the table is no
// longer what it was. left is how many rows were published, or may have been, and could not be settled: they will be published again.
func (e *engine) run(ctx context.Context) (left int, err error) {
	// What is under way when ctx ends goes on until it is done or the stop timeout is over.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(e.stopTime, abandon) })()
	e.ending = func() { // when the table has changed, too
		time.AfterFunc(e.stopTime, abandon)
		e.settlement.ending()
	}

	var group sync.WaitGroup
	group.Go(func() { e.read(ctx) })
	for i := range e.dispatch.lanes {
		w := &worker{engine: e, lane: i}
		batches := make(chan []*row)
		group.Go(func() { w.run(work, batches, e.answers) })
		e.batches = append(e.batches, batches)
	}
	err = e.turn(ctx)
	close(e.requests)
	for _, batches := range e.batches {
		close(batches)
	}
	group.Wait()
	e.publish(snapshot{})
	if left = e.dispatch.unsettled(); left > 0 {
		e.logger.Error("stopped before everything was settled: rows will be published again",
			"destination", e.to.Name, "rows", left, "error", err)
	}
	return left, err
}

// publish tells others what the state is.
func (e *engine) publish(s snapshot) { e.metrics.observe(e.to, s) }
