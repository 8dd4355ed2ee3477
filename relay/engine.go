package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
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
	to        *Destination
	ownership ownership
	writer    *settle.Writer
	hints     chan string

	// Requests from other goroutines, guarded by the engines' mu.
	left  owner.Set // shards to be released with nothing in flight here
	slow  bool      // the destination keeps the engine waiting
	rings float64   // number of writers that may ring per second; 0 if none is to ring

	// Touched only by the loop.
	dispatch  *dispatch.Dispatch
	reads     *reads
	batches   []chan []*dispatch.Row // one channel for each lane
	answers   chan answered
	settled   chan dispatch.Outcome
	state     int   // number of the set of columns that it writes
	settling  int   // number of rows whose outcome is being written
	outdated  error // why the loop ends by itself
	abandoned bool  // nothing can be written any more
	observed  time.Time
}

// Table is what the relay needs of an outbox table. [outbox.Table] implements it, and so does the tests' simulation.
type Table interface {
	feed.Order
	dispatch.Table
	settle.Table

	Read(context.Context, outbox.Query) (outbox.Page, error)
	Failed(context.Context, outbox.Query) (outbox.FailedPage, error)
	ReadsDue() bool // whether rows with available_at have a read of their own
}

var _ Table = (*outbox.Table)(nil)

// newEngine makes an engine and does not start it.
func newEngine(es *engines, to *Destination, table Table, limits dispatch.Limits, state int) *engine {
	interval := es.config.interval()
	if to.Name == nowhereName {
		interval = max(interval, nowhereInterval)
	}
	e := &engine{
		engines: es, to: to, ownership: es.owners[to], hints: make(chan string, 1), answers: make(chan answered),
		settled: make(chan dispatch.Outcome, 2), state: state,
	}
	e.writer = es.settlement.NewWriter(state, limits, to.measured, e.settled)
	f := feed.New(table, limits.Batch, limits.Rows, interval, es.config.idlePause(), time.Now())
	e.dispatch = dispatch.New(dispatch.Setup{
		To: to.target(es.config), Limits: limits, Workers: es.workers, Shards: es.config.Shards, Table: table, Late: f.Late,
		Flights: e.writer, Beside: e.beside, Measure: to.measured, Logger: es.config.Logger.With("destination", to.Name),
	})
	e.reads = newReads(e, table, limits, f)
	return e
}

// beside reports whether rows of other destinations flow. The dead letters of this one do not count: they come of its own failures.
func (e *engine) beside(now time.Time) bool {
	return slices.ContainsFunc(e.all, func(other *engine) bool {
		return other != e && other.to.FailedOf != e.to.Name && other.to.measured.History.Flows(now)
	})
}

// run relays until ctx ends. Then it starts nothing new, waits for the answers of what is on the wire and until they
// are written, or until work ends, and returns. It returns early if the table has changed. It calls ending when it
// starts nothing new. left is the number of rows that were published, or may have been, and could not be settled: they
// will be published again.
func (e *engine) run(ctx, work context.Context, ending func()) (left int, err error) {
	var group sync.WaitGroup
	group.Go(func() { e.reads.run(ctx) })
	for i := range e.workers + dispatch.TryLanes {
		w := &worker{engine: e, lane: i}
		batches := make(chan []*dispatch.Row)
		group.Go(func() { w.run(work, ctx, batches, e.answers) })
		e.batches = append(e.batches, batches)
	}
	err = e.turn(ctx, ending)
	close(e.reads.requests)
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
