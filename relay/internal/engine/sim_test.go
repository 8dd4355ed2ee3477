package engine

import (
	"container/heap"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// A sim is one schedule in simulated time: a table with its writers, a broker, and the replicas that relay the one to
// the other. There is one goroutine, so that a seed decides everything.
type sim struct {
	*rand.Rand
	shape
	at     time.Duration // now
	events simEvents
	n      int // events so far
	limits Limits

	table    *simTable
	broker   *simBroker
	replicas []*simReplica
	orphans  []int // shards whose owner was killed while they were given to it
	faults   []string
	log      func(format string, args ...any) // nil for none
	healed   bool
	reads    [kinds]int  // reads so far
	note     func(*Read) // called for each read; nil for none

	locks map[string]bool // keys whose writer is open
	ids   int
	open  int // transactions and other things that have not ended

	free     []int // sessions without a transaction
	cached   [][]int64
	cachedAt []time.Duration
}

// A shape is what a schedule concentrates on.
type shape struct {
	keys, topics            int
	ties                    int64 // so many rows have the same order value; 0 and 1 for none
	late, savepoints        bool
	longEvery               int  // one in so many transactions stays open for long; 0 for none
	unserialised            bool // writers of a key do not wait for each other
	stale                   bool // order values from long before their transaction's first write
	cache                   bool // sessions draw order values in advance
	unordered               bool // order values say nothing
	exact                   bool // a column holds the inserting transaction
	deletes, updates        bool
	second                  bool // another destination marks the rows
	bulk                    bool
	crashes, moves          bool
	readFaults, writeFaults bool
	locked, guarded         bool // rows cannot be written for a time
	slowKeys                bool // there is no index by key
	lost                    bool // answers of the broker are lost
	away                    bool
	block                   bool
	delays                  bool // rows with available_at have an index of their own
	slowReads               bool // reads begin late
	collide                 bool // many keys have the same hash
	offset                  int64
	hands                   []string // what an adversary does to rows by hand
	large                   bool     // rows of all sizes
	events                  int
	pause                   time.Duration
	replicas                int
	inserts                 int
	took                    time.Duration
	slowest                 time.Duration // publish
}

const (
	simShards = 4
	simParts  = 4
	ms        = time.Millisecond
)

// An event happens at a time.
type simEvent struct {
	at time.Duration
	n  int
	do func()
}

type simEvents []simEvent

func (e simEvents) Len() int { return len(e) }
func (e simEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e simEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *simEvents) Push(x any)   { *e = append(*e, x.(simEvent)) }
func (e *simEvents) Pop() any {
	h := *e
	x := h[len(h)-1]
	*e = h[:len(h)-1]
	return x
}

func newSim(seed uint64) *sim {
	s := &sim{Rand: rand.New(rand.NewPCG(seed, 7)), locks: map[string]bool{}}
	s.table = newSimTable(s)
	s.broker = &simBroker{sim: s, missing: map[string]bool{}, down: map[string]bool{}}
	for i := range 8 {
		s.free = append(s.free, i)
		s.cached = append(s.cached, nil)
		s.cachedAt = append(s.cachedAt, 0)
	}
	return s
}

// simStart is the time at which schedules begin.
var simStart = time.Unix(1_000_000_000, 0)

func (s *sim) now() time.Time { return simStart.Add(s.at) }

// after makes f happen after a time.
func (s *sim) after(d time.Duration, f func()) {
	s.n++
	heap.Push(&s.events, simEvent{s.at + d, s.n, f})
}

// run lets time pass until an instant.
func (s *sim) run(until time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= until {
		e := heap.Pop(&s.events).(simEvent)
		s.at = e.at
		e.do()
	}
	s.at = until
}

func (s *sim) faultf(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf("%v: ", s.at)+fmt.Sprintf(format, args...))
}

func (s *sim) logf(format string, args ...any) {
	if s.log != nil {
		s.log("%12v "+format, append([]any{s.at}, args...)...)
	}
}

func (s *sim) one(in int) bool                    { return s.IntN(in) == 0 }
func (s *sim) upto(d time.Duration) time.Duration { return time.Duration(s.Int64N(int64(d) + 1)) }

// setup returns what an engine of the simulation is made from.
func (s *sim) setup() Setup {
	m, err := measure.New(noop.Meter{})
	if err != nil {
		panic(err)
	}
	return Setup{
		MaxAttempts: simAttempts, BackoffMin: 20 * ms, BackoffMax: time.Second, BlockFailed: s.block,
		Prepare: func(*Row, time.Time) {},
		Limits:  s.limits, Shards: simShards, Table: s.table, Measure: m.Destination("sim"),
		Logger: slog.New(slog.DiscardHandler), Jitter: s.upto,
	}
}

const simAttempts = 3
