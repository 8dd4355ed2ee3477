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
// neither memory, nor time to read, nor workers. What they share is the process's: ownership, hints, the pool.
type engines struct {
	view         func(*Destination) Table // the table as a destination sees it
	together     func([]Table) joint      // see [together]; nil where no two destinations have the same row
	destinations []*Destination
	limits       Limits // of all together
	interval     time.Duration
	idlePause    time.Duration
	workers      int // for each destination
	ownership    ownership
	shards       int
	wakes        <-chan string
	logger       *slog.Logger
	metrics      *metrics
	tracer       trace.Tracer
	database     *database
	beats        []*atomic.Int64 // one for each destination
	doorbell     doorbell
	stopTime     time.Duration
}

// run relays until ctx ends, or the table is no longer what it was; see loop.run.
func (e *engines) run(ctx context.Context) (left int, err error) {
	loops, shared := e.loops()
	return e.turn(ctx, loops, shared)
}

// loops makes the loops of all engines, which have not begun.
func (e *engines) loops() ([]*loop, *shared) {
	s := &shared{ownership: e.ownership, doorbell: e.doorbell, changed: make(chan struct{}), metrics: e.metrics,
		parts: make([]member, len(e.destinations))}
	var loops []*loop
	limits := e.limits.shares(e.destinations)
	var columns []map[string]string // each set once
	var tables []Table              // with these
	for i, d := range e.destinations {
		table, state := e.view(d), slices.IndexFunc(columns, func(other map[string]string) bool { return maps.Equal(other, d.Columns) })
		if state < 0 {
			state, columns, tables = len(columns), append(columns, d.Columns), append(tables, table)
		}
		interval := e.interval
		if d.Name == nowhereName {
			interval = max(interval, nowhereInterval)
		}
		wakes := make(chan string, 1)
		s.parts[i].wakes = wakes
		one := &engine{table: table, to: d, limits: limits[d], interval: interval,
			idlePause: e.idlePause, workers: e.workers, ownership: &share{s, i}, state: state, shards: e.shards, wakes: wakes,
			logger: e.logger, metrics: e.metrics, tracer: e.tracer, database: e.database, beat: e.beats[i], stopTime: e.stopTime}
		loops = append(loops, one.loop())
	}
	s.settlement = newSettlement(e.limits.Batch, tables)
	for _, l := range loops {
		l.settlement = s.settlement
	}
	return loops, s
}

// nowhereInterval is how often it is looked for rows that no destination takes.
const nowhereInterval = time.Second

// turn runs the loops. When one ends by itself the others end, too.
func (e *engines) turn(ctx context.Context, loops []*loop, s *shared) (left int, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var watching, running sync.WaitGroup
	watch, done := context.WithCancel(context.WithoutCancel(ctx))
	watching.Go(func() { s.follow(watch) })
	watching.Go(func() { s.ring(watch, e.wakes) })
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	s.settlement.ending = func() { time.AfterFunc(e.stopTime, abandon) }
	for range settlers {
		one := &settler{database: e.database, metrics: e.metrics, limit: statementTimeout, join: e.together, joints: map[uint64]joint{}}
		s.settlement.group.Go(func() { one.run(work, s.settlement) })
	}
	var mu sync.Mutex
	for _, l := range loops {
		running.Go(func() {
			n, failure := l.run(ctx)
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
	s.settlement.close()
	s.settlement.group.Wait()
	done()
	watching.Wait()
	e.database.stopped()
	return left, err
}

// shared is what the engines of a process have in common.
type shared struct {
	ownership
	doorbell
	settlement *settlement

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when an engine may have to look at its shards
	owned   owner.Set
	metrics *metrics
	parts   []member
}

// member is what is known of one engine.
type member struct {
	left  owner.Set // of the shards that are to be given back, those of which it has nothing in flight
	slow  bool      // its destination keeps it waiting
	armed bool      // each writer is to ring
	wakes chan<- string
}

// follow tells the engines when the ownership has changed.
func (s *shared) follow(ctx context.Context) {
	for {
		state, changed := s.ownership.State()
		s.mu.Lock()
		if won := state.Owned.Without(s.owned); won.Len() > 0 {
			s.metrics.tookOver(won.Len())
		}
		s.owned = state.Owned
		s.tell()
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// ring passes hints on to all engines.
func (s *shared) ring(ctx context.Context, wakes <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case source := <-wakes:
			for i := range s.parts {
				select {
				case s.parts[i].wakes <- source:
				default: // it is about to look anyway
				}
			}
		}
	}
}

// tell lets the engines look. The caller holds mu.
func (s *shared) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// share is one engine's view of what is shared.
type share struct {
	*shared
	index int
}

// State says which shards the engine relays and which it is to leave. Of a shard that is to be given back the engines that are kept
// waiting let go first; the others go on feeding until those have nothing of it in flight any more.
func (s *share) State() (owner.State, <-chan struct{}) {
	state, _ := s.ownership.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.parts {
		s.parts[i].left = s.parts[i].left.And(state.Leaving)
	}
	me := &s.parts[s.index]
	if me.slow || state.Leaving == (owner.Set{}) {
		return state, s.changed
	}
	var awaited owner.Set
	for i := range s.parts {
		if p := &s.parts[i]; p.slow {
			awaited = awaited.Or(state.Leaving.Without(p.left))
		}
	}
	awaited = awaited.Without(me.left)
	state.Owned, state.Leaving = state.Owned.Or(awaited), state.Leaving.Without(awaited)
	return state, s.changed
}

// Left notes that the engine has nothing of these shards in flight any more. They are given back when that holds for all.
func (s *share) Left(set owner.Set) {
	s.mu.Lock()
	me := &s.parts[s.index]
	before := me.left
	me.left = me.left.Or(set)
	all := me.left
	for i := range s.parts {
		all = all.And(s.parts[i].left)
	}
	if me.left != before {
		s.tell()
	}
	s.mu.Unlock()
	if all != (owner.Set{}) {
		s.ownership.Left(all)
	}
}

// Slow notes whether the engine's destination keeps it waiting.
func (s *share) Slow(slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if me := &s.parts[s.index]; me.slow != slow {
		me.slow = slow
		s.tell()
	}
}

// Arm notes whether each writer is to ring for this engine. They are to when no engine has so many rows that it would cost too much.
func (s *share) Arm(armed bool) {
	s.mu.Lock()
	s.parts[s.index].armed = armed
	all := true
	for i := range s.parts {
		all = all && s.parts[i].armed
	}
	s.mu.Unlock()
	s.doorbell.Arm(all)
}
