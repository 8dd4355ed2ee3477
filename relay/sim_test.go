package relay

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// sim is a relay of a simulated table to brokers in memory.
type sim struct {
	table *simTable
	*publishertest.Broker
	t            testing.TB
	destinations []*Destination
	limits       engine.Limits
	interval     time.Duration
	doorbell     doorbell
	owner        *simOwner
	owners       []*simOwner  // instead, of the first destinations
	turns        atomic.Int64 // turns of the loops that run
	loop         *loop        // engine of the first destination, the latest that was started
	// engines of all destinations, the latest that were started or opened the table again
	latest atomic.Pointer[[]*loop]
	config *Config
	log    io.Writer    // log of the loops
	meter  metric.Meter // meter of the loops
}

type deaf struct{}

func (deaf) Arm(bool)         {}
func (deaf) Armed() time.Time { return time.Time{} }

func newSim(t testing.TB) *sim {
	s := &sim{
		t: t, table: newSimTable(), Broker: publishertest.NewBroker(), log: io.Discard, meter: noop.Meter{},
		limits: engine.Limits{Batch: 100, Rows: 400, Bytes: 1 << 20}, interval: 50 * time.Millisecond, doorbell: deaf{},
	}
	s.owner = newSimOwner(simShards)
	s.destinations = []*Destination{s.destination("default", s.Broker)}
	return s
}

func (s *sim) destination(name string, b *publishertest.Broker, topics ...string) *Destination {
	return &Destination{
		Name: name, Publisher: b.Publisher(), Topics: topics, MaxAttempts: 5,
		BackoffMin: 500 * time.Millisecond, BackoffMax: time.Minute, PublishTimeout: 10 * time.Second,
	}
}

// start runs an engine. The function that it returns stops it cleanly.
func (s *sim) start() (stop func()) {
	cancel, done := s.startOn(s.table)
	return func() { cancel(); <-done }
}

// startOn runs an engine on a table until cancel is called. done is closed when it has ended.
func (s *sim) startOn(table tableView) (cancel func(), done <-chan struct{}) {
	m, err := newMetrics(s.meter, s.destinations)
	if err != nil {
		s.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(s.log, nil))
	if s.limits.Patience == 0 {
		s.limits.Patience = 15 * time.Second
	}
	s.config = &Config{
		Destinations: s.destinations, PollInterval: s.interval, Shards: simShards, StopTimeout: 25 * time.Second,
		Logger: logger, Tracer: tracenoop.Tracer{},
	}
	e := &engines{
		config: s.config, metrics: m, database: &database{},
		limits: s.limits, together: simTogether, doorbell: s.doorbell,
	}
	open := func() {
		e.all = nil
		for i, d := range s.destinations {
			view := &simView{columnsOf(table, d), viewsOf(s.destinations)[i].Filter}
			owns := s.owner
			if i < len(s.owners) {
				owns = s.owners[i]
			}
			e.all = append(e.all, &loop{engines: e, to: d, table: view, ownership: countingOwner{owns, &s.turns}})
		}
		e.make()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	open()
	s.loop = e.all[0]
	all := e.all
	first := &all
	s.latest.Store(first)
	go func() {
		defer close(ended)
		for {
			_, err := e.run(ctx) // the table shows what it leaves undone
			link, ok := table.(*session)
			if !ok || err == nil || ctx.Err() != nil {
				return
			}
			link.open()
			open()
			all := e.all
			again := &all
			s.latest.CompareAndSwap(first, again)
			first = again
		}
	}()
	return cancel, ended
}

// simulate runs f in a bubble of simulated time, unless the tests are run with -short. The race detector makes such a
// test ten times slower. It sees the same code in the random schedules and in the tests with a database, so make test
// runs it with -short, and the simulated tests without it.
func simulate(t *testing.T, f func(*testing.T, *sim)) {
	t.Helper()
	if testing.Short() {
		t.Skip("simulated")
	}
	bubble(t, f)
}

// bubble runs f in a bubble of simulated time.
func bubble(t *testing.T, f func(*testing.T, *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newSim(t)) })
}

// firsts returns the first delivery of each message in order of arrival, and the number of other deliveries.
func firsts(messages []publisher.Message) (first []publisher.Message, duplicates int) {
	seen := map[string]bool{}
	for _, m := range messages {
		if seen[m.ID] {
			duplicates++
			continue
		}
		seen[m.ID] = true
		first = append(first, m)
	}
	return first, duplicates
}

// simView is the table as a destination sees it.
type simView struct {
	tableView
	filter outbox.Filter
}

type filterKey struct{}

func (v *simView) Tail(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return v.tableView.Tail(context.WithValue(ctx, filterKey{}, v.filter), q)
}

func (v *simView) Keys(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return v.tableView.Keys(context.WithValue(ctx, filterKey{}, v.filter), q)
}

func (v *simView) Blocked(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return v.tableView.Blocked(context.WithValue(ctx, filterKey{}, v.filter), q)
}

// taken reports whether the reader's destination takes a topic.
func taken(ctx context.Context, topic string) bool {
	f, ok := ctx.Value(filterKey{}).(outbox.Filter)
	return !ok || f.Takes(topic)
}

// viewsOf returns the destinations' views of the table.
func viewsOf(destinations []*Destination) []outbox.View {
	c := Config{Table: "t", Destinations: destinations}
	plan, _, _ := c.plan()
	return plan.Views
}
