package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// engines relay the rows of all destinations. Each destination has an engine of its own, so that one takes neither
// memory, nor time to read, nor workers from another. The engines share the ownership, the hints, the pool and the
// settlement of the process. Destinations that keep their state in the same columns share the ownership of shards, too.
type engines struct {
	process
	together settle.Join
	limits   engine.Limits // limits of all destinations together
	workers  int           // per destination
	doorbell doorbell

	settlement *settle.Settlement
	mu         sync.Mutex
	all        []*loop
	changed    chan struct{} // closed and replaced when an engine may have to look at its shards
}

// ownership knows which shards this replica owns, and until when.
type ownership interface {
	State() (owner.State, <-chan struct{})
	Trusted() time.Time // nothing is written to a broker after this time
	Left(owner.Set)     // nothing of these shards is in flight any more
}

// doorbell makes writers ring; see [outbox.Listener].
type doorbell interface {
	Up() bool
	Arm(rings bool)   // each writer is to ring, as long as they are few, or none
	Armed() time.Time // since when each writer rings; zero if writers do not ring
}

// make makes the engines of all loops and does not start them.
func (es *engines) make() {
	es.changed = make(chan struct{})
	var destinations []*Destination
	states := map[string]int{} // numbers of the sets of columns, by the one for relayed_at, which no two sets share
	var tables []settle.Table  // one table for each set
	for _, l := range es.all {
		number, known := states[l.to.group()]
		if !known {
			number, tables = len(tables), append(tables, l.table)
			states[l.to.group()] = number
		}
		l.state, destinations = number, append(destinations, l.to)
	}
	es.settlement = settle.New(es.limits.Batch, tables, es.together, es.database.wrote)
	for _, l := range es.all {
		l.make(shareOf(es.limits, destinations, l.to))
	}
}

// add adds a loop for a destination with its view of the table, and with the ownership that it may share with others.
func (es *engines) add(to *Destination, table tableView, o ownership) {
	es.all = append(es.all, &loop{engines: es, to: to, table: table, ownership: o})
}

// run runs the loops. When one ends by itself, the others end, too.
func (es *engines) run(ctx context.Context) (left int, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var watching, running sync.WaitGroup
	watch, done := context.WithCancel(context.WithoutCancel(ctx))
	var followed []ownership
	for _, e := range es.all {
		if !slices.Contains(followed, e.ownership) {
			followed = append(followed, e.ownership)
			watching.Go(func() { es.follow(watch, e.ownership) })
		}
	}
	// Work that is under way when ctx ends, or an engine ends by itself, goes on until it is done or the stop timeout
	// is over.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	ending := func() { time.AfterFunc(es.config.StopTimeout, abandon) }
	es.settlement.Start(work)
	var mu sync.Mutex
	for _, e := range es.all {
		running.Go(func() {
			n, failure := e.run(ctx, work, ending)
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
	es.settlement.Close()
	done()
	watching.Wait()
	es.database.stopped()
	return left, err
}

// follow wakes the engines when an ownership has changed.
func (es *engines) follow(ctx context.Context, ownership ownership) {
	var owned owner.Set
	for {
		state, changed := ownership.State()
		if won := state.Owned.Without(owned); won.Len() > 0 {
			es.metrics.TookOver(won.Len())
		}
		owned = state.Owned
		es.mu.Lock()
		es.notify()
		es.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// notify makes the engines look at their shards. The caller holds mu.
func (es *engines) notify() {
	close(es.changed)
	es.changed = make(chan struct{})
}

// ours returns the shards that the engine relays, and those that it is to leave. If a shard is to be released, the
// engines that are kept waiting let go of it first. The others keep relaying it until the waiting engines have nothing
// of it in flight.
func (l *loop) ours() (owner.State, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, _ := l.ownership.State()
	var awaited owner.Set
	for other := range l.sharers {
		other.left = other.left.And(state.Leaving)
		if other.slow {
			awaited = awaited.Or(state.Leaving.Without(other.left))
		}
	}
	if !l.slow {
		awaited = awaited.Without(l.left)
		state.Owned, state.Leaving = state.Owned.Or(awaited), state.Leaving.Without(awaited)
	}
	return state, l.changed
}

// sharers calls yield with all engines that share the ownership, this one included.
func (l *loop) sharers(yield func(*loop) bool) {
	for _, other := range l.all {
		if other.ownership == l.ownership && !yield(other) {
			return
		}
	}
}

// leave notes that the engine has nothing of these shards in flight any more. A shard is released when all engines that
// share the ownership have left it. That is reported before any engine can learn that it has the shard again.
func (l *loop) leave(set owner.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.left
	l.left = l.left.Or(set)
	all := l.left
	for other := range l.sharers {
		all = all.And(other.left)
	}
	if l.left != before {
		l.notify()
	}
	if all != (owner.Set{}) {
		l.ownership.Left(all)
	}
}

// wait notes whether the destination keeps the engine waiting.
func (l *loop) wait(slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow != slow {
		l.slow = slow
		l.notify()
	}
}

// arm notes whether writers may ring for this engine. Writers ring if no engine has so many rows that ringing would
// cost too much. Engines of paused destinations have no say: they read nothing, and the others need the rings.
func (l *loop) arm(rings bool) {
	l.mu.Lock()
	l.rings = rings
	reads := func(other *loop) bool { return !other.to.paused.Load() }
	mayNot := func(other *loop) bool { return reads(other) && !other.rings }
	wanted := slices.ContainsFunc(l.all, reads) && !slices.ContainsFunc(l.all, mayNot)
	l.mu.Unlock()
	l.doorbell.Arm(wanted)
}
