package relay

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// engines relay the rows of all destinations, each with an engine of its own, so that a destination takes nothing from another:
// neither memory, nor time to read, nor workers. What they share is the process's: ownership, hints, the pool, the settlers.
type engines struct {
	view         func(*Destination) Table // the table as a destination sees it
	together     func([]Table) joint      // see [together]; nil where no two destinations have the same row
	destinations []*Destination
	limits       Limits        // of all together
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
	beats        []*atomic.Int64 // one for each destination: when its loop turned last
	doorbell     doorbell
	stopTime     time.Duration

	settlement *settlement
	mu         sync.Mutex
	all        []*engine
	owned      owner.Set
	changed    chan struct{} // closed and replaced when an engine may have to look at its shards
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

// run relays until ctx ends, or the table is no longer what it was; see engine.run.
func (es *engines) run(ctx context.Context) (left int, err error) {
	es.make()
	return es.turn(ctx)
}

// make makes all engines, which have not begun.
func (es *engines) make() {
	es.all, es.owned, es.changed = nil, owner.Set{}, make(chan struct{})
	limits := es.limits.shares(es.destinations)
	var columns []map[string]string // each set once
	var tables []Table              // with these
	for i, d := range es.destinations {
		table, state := es.view(d), slices.IndexFunc(columns, func(other map[string]string) bool { return maps.Equal(other, d.Columns) })
		if state < 0 {
			state, columns, tables = len(columns), append(columns, d.Columns), append(tables, table)
		}
		es.all = append(es.all, newEngine(es, d, table, limits[d], state, es.beats[i]))
	}
	es.settlement = newSettlement(es.limits.Batch, tables, takers(es.destinations, columns))
	for _, e := range es.all {
		e.dispatch.flights = es.settlement.flights(e.writer.state)
	}
}

// turn runs the engines. When one ends by itself the others end, too.
func (es *engines) turn(ctx context.Context) (left int, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var watching, running sync.WaitGroup
	watch, done := context.WithCancel(context.WithoutCancel(ctx))
	watching.Go(func() { es.follow(watch) })
	watching.Go(func() { es.ring(watch) })
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	es.settlement.ending = func() {
		es.settlement.hurry()
		time.AfterFunc(es.stopTime, abandon)
	}
	for range settlers {
		one := &settler{database: es.database, metrics: es.metrics, limit: statementTimeout, join: es.together, joints: map[uint64]joint{}}
		es.settlement.group.Go(func() { one.run(work, es.settlement) })
	}
	var mu sync.Mutex
	for _, e := range es.all {
		running.Go(func() {
			n, failure := e.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			left += n
			if failure != nil && err == nil {
				err = failure
				end(errOutdated)
			}
		})
	}
	running.Wait()
	es.settlement.close()
	es.settlement.group.Wait()
	done()
	watching.Wait()
	es.database.stopped()
	return left, err
}

// follow tells the engines when the ownership has changed.
func (es *engines) follow(ctx context.Context) {
	for {
		state, changed := es.ownership.State()
		es.mu.Lock()
		if won := state.Owned.Without(es.owned); won.Len() > 0 {
			es.metrics.tookOver(won.Len())
		}
		es.owned = state.Owned
		es.tell()
		es.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// ring passes hints on to all engines.
func (es *engines) ring(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case source := <-es.wakes:
			for _, e := range es.all {
				select {
				case e.hints <- source:
				default: // it is about to look anyway
				}
			}
		}
	}
}

// tell lets the engines look. The caller holds mu.
func (es *engines) tell() {
	close(es.changed)
	es.changed = make(chan struct{})
}

// ours says which shards the engine relays and which it is to leave. Of a shard that is to be given back the engines that are kept
// waiting let go first; the others go on feeding until those have nothing of it in flight any more.
func (e *engine) ours() (owner.State, <-chan struct{}) {
	state, _ := e.ownership.State()
	e.mu.Lock()
	defer e.mu.Unlock()
	var awaited owner.Set
	for _, other := range e.all {
		other.left = other.left.And(state.Leaving)
		if other.slow {
			awaited = awaited.Or(state.Leaving.Without(other.left))
		}
	}
	if !e.slow {
		awaited = awaited.Without(e.left)
		state.Owned, state.Leaving = state.Owned.Or(awaited), state.Leaving.Without(awaited)
	}
	return state, e.changed
}

// leave notes that the engine has nothing of these shards in flight any more. They are given back when that holds for all.
func (e *engine) leave(set owner.Set) {
	e.mu.Lock()
	before := e.left
	e.left = e.left.Or(set)
	all := e.left
	for _, other := range e.all {
		all = all.And(other.left)
	}
	if e.left != before {
		e.tell()
	}
	e.mu.Unlock()
	if all != (owner.Set{}) {
		e.ownership.Left(all)
	}
}

// wait notes whether the engine's destination keeps it waiting.
func (e *engine) wait(slow bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.slow != slow {
		e.slow = slow
		e.tell()
	}
}

// arm notes whether each writer is to ring for this engine. They are to when no engine has so many rows that it would cost too much.
func (e *engine) arm(armed bool) {
	e.mu.Lock()
	e.armed = armed
	all := !slices.ContainsFunc(e.all, func(other *engine) bool { return !other.armed })
	e.mu.Unlock()
	e.doorbell.Arm(all)
}
