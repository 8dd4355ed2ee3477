package relay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// engines relay the rows of all destinations. Each destination has an engine of its own, so that one takes neither
// memory, nor time to read, nor workers from another. The engines share the ownership, the hints, the pool and the
// settlement of the process. Destinations that keep their state in the same columns share the ownership of shards, too.
//
// They live for one term of the ownership of an opened table. The next term has new ones, which know nothing.
type engines struct {
	config   *Config
	metrics  *measure.Metrics
	database *database
	together settle.Join
	limits   engine.Limits // limits of all destinations together; see shareOf
	doorbell doorbell

	settlement *settle.Settlement
	all        []*loop    // given by the user, one for each destination; does not change after make
	mu         sync.Mutex // guards what the loops know of each other
}

// ownership knows which shards this replica owns, and until when. Its methods do not block, and several goroutines call
// them. [owner.Group] is one, and the tests' simulation has another.
type ownership interface {
	State() (state owner.State, changed <-chan struct{})
	Trusted() time.Time // nothing is written to a broker after this time
	Left(owner.Set)     // nothing of these shards is in flight any more
}

// doorbell makes writers ring; see [outbox.Listener].
type doorbell interface {
	Arm(rings bool)   // each writer is to ring, as long as they are few, or none
	Armed() time.Time // since when each writer rings; zero if writers do not ring
}

// make makes the engines of all loops and does not start them.
func (es *engines) make() {
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

// run runs the loops. When one ends by itself, the others end, too: the table is opened again for all of them. It
// blocks until they have ended and nothing more is written, and returns how many rows will be published again.
func (es *engines) run(ctx context.Context) (left int, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	// Work that is under way when ctx ends, or an engine ends by itself, goes on until it is done or the stop timeout
	// is over.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	context.AfterFunc(ctx, func() { time.AfterFunc(es.config.StopTimeout, abandon) })
	es.settlement.Start(work)
	for _, e := range es.all {
		running.Go(func() {
			n, failure := e.run(ctx, work, end)
			es.mu.Lock()
			defer es.mu.Unlock()
			left, err = left+n, cmp.Or(err, failure)
		})
	}
	running.Wait()
	es.settlement.Close()
	es.database.stopped()
	return left, err
}

// own follows the shards that this replica gains and loses. A shard is released when no engine that shares the
// ownership has rows of it in flight any more. An engine whose broker answers goes on with a shard until those whose
// broker does not have let go of it, so that a silent broker does not stop the rows of other destinations.
func (l *loop) own(now time.Time) (changed <-chan struct{}) {
	l.mu.Lock()
	state, changed := l.ownership.State()
	l.left = l.left.And(state.Leaving) // before the engine can read rows of a shard that is ours again
	if l.slow = l.isSlow(now); !l.slow {
		awaited := l.awaited(state.Leaving)
		state.Owned, state.Leaving = state.Owned.Or(awaited), state.Leaving.Without(awaited)
	}
	l.mu.Unlock()
	// While a destination is paused, its engine relays no shard, and shards still move between replicas. Rows that were
	// read and not handed over are forgotten when the pause begins and read again after it, since another session may
	// change or delete them meanwhile. What is on the wire is answered and settled.
	if l.to.paused.Load() {
		state.Owned = owner.Set{}
	}
	if state.Owned == (owner.Set{}) {
		l.arm(false)
	}
	// The engine does not know of other engines. It says what it has left; that all have is decided here.
	left := l.engine.Own(state.Owned, state.Leaving, now)
	if left == (owner.Set{}) {
		return changed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = l.left.Or(left)
	for _, other := range l.all {
		if other.ownership == l.ownership {
			left = left.And(other.left)
		}
	}
	if left != (owner.Set{}) {
		l.ownership.Left(left)
	}
	return changed
}

// awaited returns the leaving shards that an engine with a slow destination has not left, and this one has not, either.
// The caller holds mu.
func (l *loop) awaited(leaving owner.Set) (awaited owner.Set) {
	for _, other := range l.all {
		if other.slow && other.ownership == l.ownership {
			awaited = awaited.Or(leaving.Without(other.left))
		}
	}
	return awaited.Without(l.left)
}

// arm notes whether writers are to ring for this engine. It asks for rings if they are few enough, and if it reads at
// all. Writers ring as long as any engine asks for them.
func (l *loop) arm(rings bool) {
	l.mu.Lock()
	l.rings = rings
	wanted := slices.ContainsFunc(l.all, func(other *loop) bool { return other.rings })
	l.mu.Unlock()
	l.doorbell.Arm(wanted)
}
