package relay

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// engine relays the rows of one destination for as long as this replica owns shards of the outbox. Its loop is the only
// goroutine that touches the feed and the dispatch. A reader, the workers and the settlers of the process do what takes
// time, one thing each, so that reading, publishing and settling overlap.
type engine struct {
	*engines
	to     *Destination
	table  Table           // this destination's view
	limits dispatch.Limits // its share of the limits
	writer *settle.Writer
	hints  chan string

	// Requests from other goroutines, guarded by the engines' mu.
	left  owner.Set // shards to be released with nothing in flight here
	slow  bool      // the destination keeps the engine waiting
	armed bool      // each writer is to ring

	// Touched only by the loop.
	dispatch    *dispatch.Dispatch
	feed        *feed.Feed
	due         feed.Due
	requests    chan read
	responses   chan read
	settled     chan dispatch.Outcome
	batches     []chan []*dispatch.Row // one channel for each lane
	answers     chan answered
	room        room
	reading     bool
	turnOf      int  // kind of read that has the next turn, if it has anything to read
	looked      bool // the tail scan has looked for late rows since the last read of heads
	whole       bool // the tail scan began at the very beginning
	scans       scan
	patience    map[feed.Kind]*patience
	settling    int   // number of rows whose outcome is being written
	unchecked   *read // page to take once the failed rows have been read
	retryRead   time.Time
	failedReads int
	outdated    error  // why the loop ends by itself
	abandoned   bool   // nothing can be written any more
	ending      func() // puts a time limit on what is under way
	full        bool   // the log has said that nothing is read because of rows that cannot be written
	observed    time.Time
	paused      bool // nothing is published to the destination
}

// newEngine makes an engine and does not start it.
func newEngine(es *engines, to *Destination, table Table, limits dispatch.Limits, state int) *engine {
	interval := es.config.interval()
	if to.Name == nowhereName {
		interval = max(interval, nowhereInterval)
	}
	e := &engine{
		engines: es, to: to, table: table, limits: limits, hints: make(chan string, 1),
		feed: feed.New(table, limits.Batch, limits.Rows, interval, es.config.idlePause(), time.Now()), due: feed.NewDue(table.ReadsDue()),
		room:     room{limits: limits, most: limits.Bytes},
		patience: newPatiences(), requests: make(chan read), responses: make(chan read),
		settled: make(chan dispatch.Outcome, 2), answers: make(chan answered),
	}
	e.writer = es.settlement.NewWriter(state, limits, to.measured, e.settled)
	e.dispatch = dispatch.New(dispatch.Setup{
		To: to.target(es.config.Logger), Limits: limits, Workers: es.workers, Shards: es.config.Shards, Table: table, Late: e.feed.Late,
		Flights: e.writer, Measure: to.measured, Logger: es.config.Logger,
	})
	return e
}

// run relays until ctx ends. Then it starts nothing new, waits for the answers of what is on the wire and until they
// are written, at most for the stop timeout, and returns. It returns early if the table has changed. left is the number
// of rows that were published, or may have been, and could not be settled: they will be published again.
func (e *engine) run(ctx context.Context) (left int, err error) {
	// Work that is under way when ctx ends goes on until it is done or the stop timeout is over.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	stopTime := e.config.StopTimeout
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopTime, abandon) })()
	e.ending = func() { // also called when the table has changed
		time.AfterFunc(stopTime, abandon)
		e.settlement.Ending()
	}

	var group sync.WaitGroup
	group.Go(func() { e.read(ctx) })
	for i := range e.workers + dispatch.TryLanes {
		w := &worker{engine: e, lane: i}
		batches := make(chan []*dispatch.Row)
		group.Go(func() { w.run(work, ctx, batches, e.answers) })
		e.batches = append(e.batches, batches)
	}
	err = e.turn(ctx)
	close(e.requests)
	for _, batches := range e.batches {
		close(batches)
	}
	group.Wait()
	e.publish(dispatch.Snapshot{})
	if left = e.dispatch.Unsettled(); left > 0 {
		e.config.Logger.Error("stopped before everything was settled: rows will be published again",
			"destination", e.to.Name, "rows", left, "error", cmp.Or(err, errStopTime))
	}
	return left, err
}

var errStopTime = errors.New("the time for a clean stop was over")

// publish makes the state visible to other goroutines.
func (e *engine) publish(s dispatch.Snapshot) { e.to.state.Store(&s) }
