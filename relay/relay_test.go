package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/sql"
)

// tested is the configuration of a relay, with its pool.
type tested struct {
	Config
	Pool *pgxpool.Pool
}

// replica makes a relay of the schema's outbox_messages to a broker in memory.
func replica(t testing.TB, s *pgtest.Schema, b *publishertest.Broker, change func(*tested)) *Relay {
	t.Helper()
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	connect := func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	own := s.PoolWith(t, func(p *pgxpool.Config) { p.AfterConnect = pgsession.Own }) // as that of NewPool
	c := tested{Pool: own, Config: Config{
		Table: s.Name + ".outbox_messages", ListenChannel: NoChannel, PollInterval: 50 * time.Millisecond,
		BatchSize: 100, MaxInFlight: 500, MaxInFlightBytes: 1 << 20, OwnerTTL: 10 * time.Second,
		StopTimeout: 10 * time.Second,
		Destinations: []*Destination{{
			Name: "default", Publisher: b.Publisher(), MaxAttempts: 3, BackoffMin: time.Millisecond,
			BackoffMax:     10 * time.Millisecond,
			PublishTimeout: 10 * time.Second,
		}},
		Logger: slog.New(slog.DiscardHandler), connect: connect,
	}}
	if change != nil {
		change(&c)
	}
	r, err := New(c.Pool, c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs a relay until the test or the returned function ends it.
func start(t *testing.T, r *Relay) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// eventually polls a condition of the database, which has no event to wait for.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	within(t, time.Minute, what, condition)
}

func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, limit)
		}
	}
}

func notReady(r *Relay) string {
	for _, check := range r.Ready() {
		if check.Err != nil {
			return check.Name + ": " + check.Err.Error()
		}
	}
	return ""
}

func TestWaitsForItsTable(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	r := replica(t, s, b, nil)
	start(t, r)
	eventually(t, "not ready, with the remedy", func() bool {
		return strings.Contains(notReady(r), "outbox-relay schema")
	})
	s.Exec(t, pgtest.ShapeA)
	eventually(t, "ready", func() bool { return notReady(r) == "" })
	s.Exec(t, pgtest.Insert, "t", `{"n": 1}`)
	b.Await(t, 1)
	s.Exec(t, "alter table outbox_messages rename to elsewhere")
	eventually(t, "not ready without the table", func() bool { return strings.Contains(notReady(r), "does not exist") })
	s.Exec(t, "alter table elsewhere rename to outbox_messages")
	s.Exec(t, pgtest.Insert, "t", `{"n": 2}`)
	b.Await(t, 2)
	if err := r.Live(); err != nil {
		t.Error(err)
	}
}

// A row is tried MaxAttempts times on each table shape, and its error fits its column.
func TestFailureOnEachShape(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shape string
		tries int
	}{"A": {pgtest.ShapeA, 3}, "B": {pgtest.ShapeB, 3}, "C": {pgtest.ShapeC, 4}} { // C counts from 0
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, test.shape)
			s.Exec(t, pgtest.Insert, "t", `{}`)
			id := pgtest.Value[string](t, s, "select id::text from outbox_messages")
			for range 10 {
				b.Answer(id, errors.New("x"), fmt.Errorf("again")) // unclassified: spends nothing
			}
			b.Reset()
			b.Refuse(id, 100)
			start(t, replica(t, s, b, nil))
			eventually(t, "failed", func() bool {
				return pgtest.Value[bool](t, s,
					"select failed_at is not null and attempt = 4 and last_error is not null and relayed_at is null from "+
						"outbox_messages")
			})
			if b.Tries(id) != test.tries {
				t.Errorf("%d tries, want %d", b.Tries(id), test.tries)
			}
		})
	}
}

func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, pgtest.ShapeB)
	one := func(c *tested) { c.Shards = 1 }
	first, second := replica(t, s, b, one), replica(t, s, b, one)
	stop := start(t, first)
	s.Exec(t, pgtest.Insert, "t", `1`)
	b.Await(t, 1)
	start(t, second)
	eventually(t, "standby is ready and says why", func() bool {
		checks := second.Ready()
		return len(checks) > 2 && checks[2].Err == nil &&
			strings.Contains(checks[2].Note, "standing by: other replicas relay; replicas: 2")
	})
	stop()
	s.Exec(t, pgtest.Insert, "t", `2`)
	if got := len(b.Await(t, 2)); got != 2 {
		t.Errorf("%d deliveries of 2 rows", got)
	}
}

// Two replicas share the work. When one stops, the other takes over all of it. Nothing is published twice.
func TestReplicasShareTheWork(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	insert := func(from, to int) {
		s.Exec(t,
			`insert into outbox_messages (topic, key, payload) select 't', 'k' || i % 50, to_jsonb(i) from
				generate_series($1::int, $2::int) i`,
			from, to)
	}
	first, second := replica(t, s, b, nil), replica(t, s, b, nil)
	stop := start(t, first)
	insert(1, 2000)
	start(t, second)
	for n, r := range []*Relay{first, second} {
		eventually(t, fmt.Sprintf("replica %d has half", n), func() bool {
			state := firstState(r)
			return state.Owned.Len() == 8 && state.Leaving.Len() == 0
		})
	}
	insert(2001, 4000)
	b.Await(t, 3000)
	stop()
	insert(4001, 5000)
	eventually(t, "everything is relayed", func() bool {
		return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null") == 0
	})
	last := map[string]int{}
	for _, m := range b.All() {
		n, err := strconv.Atoi(string(m.Payload))
		if err != nil {
			t.Fatal(err)
		}
		if key := string(m.Key); last[key] >= n {
			t.Errorf("key %s: %d arrived after %d", key, n, last[key])
		} else {
			last[key] = n
		}
	}
	if got := len(b.All()); got != 5000 {
		t.Errorf("%d deliveries of 5000 rows", got)
	}
}

// With polling practically disabled, a notification, the doorbell's trigger and the doorbell itself each wake the
// relay.
func TestWakes(t *testing.T) {
	t.Parallel()
	table := sql.Table{Name: "outbox_messages"}
	for name, test := range map[string]struct {
		setup string
		ring  func(*Relay, *pgtest.Schema)
	}{
		"notification": {"", func(_ *Relay, s *pgtest.Schema) { s.Exec(t, "select pg_notify($1, '')", s.Name) }},
		"trigger":      {sql.Schema(table) + sql.Doorbell(table, "CHANNEL"), func(*Relay, *pgtest.Schema) {}},
		"doorbell":     {"", func(r *Relay, _ *pgtest.Schema) { r.Ring() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			if test.setup != "" {
				s.Exec(t, strings.ReplaceAll(test.setup, "CHANNEL", s.Name), pgx.QueryExecModeSimpleProtocol)
			} else {
				s.Exec(t, pgtest.ShapeB)
			}
			r := replica(t, s, b, func(c *tested) { c.PollInterval, c.ListenChannel = time.Hour, s.Name })
			start(t, r)
			eventually(t, "listening", r.listener.Up)
			for n := 1; n <= 3; n++ {
				if name == "trigger" {
					eventually(t, "asleep", func() bool {
						return pgtest.Value[int](t, s, `select count(*) from pg_locks where locktype = 'advisory' and mode = 'ShareLock'
							and classid = `+sql.DoorbellClass+` and objid = 'outbox_messages'::regclass`) == 1
					})
				}
				s.Exec(t, pgtest.Insert, "t", `{}`)
				test.ring(r, s)
				b.Await(t, n)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, pgtest.ShapeB)
	for range 300 {
		s.Exec(t, pgtest.Insert, "t", `{}`)
	}
	if err := replica(t, s, b, nil).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(b.All()); got != 300 {
		t.Errorf("%d deliveries of 300 rows", got)
	}
	b.Remove("gone")
	s.Exec(t, pgtest.Insert, "gone", `{}`)
	r := replica(t, s, b, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Drain(ctx) }()
	eventually(t, "the row is held", func() bool {
		return r.config.Destinations[0].snapshot().Held[engine.CauseTopology] == 1
	})
	cancel()
	err := <-ended
	if left, ok := errors.AsType[*LeftError](err); !ok || left.Rows != 1 || !strings.Contains(left.Reasons, "topology 1") {
		t.Errorf("got %v", err)
	}
}

// An application's transaction that keeps a row in flight locked delays the marks of other rows for a moment only, and
// causes nothing to be published twice.
func TestMarksGoOnBesideALockedRow(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	const rows = 5000
	start(t, replica(t, s, b, nil))
	s.Exec(t, "insert into outbox_messages (topic, key, payload) values ('t', 'first', '1')")
	b.Await(t, 1)
	b.Hold()
	s.Exec(t, `insert into outbox_messages (topic, key, payload)
		select 't', 'k' || i % 50, to_jsonb(i) from generate_series(2, $1::int) i`, rows)
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from outbox_messages where payload = '100' for update"); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	b.Release()
	relayed := func() int {
		return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is not null")
	}
	eventually(t, "all but the locked row are marked", func() bool { return relayed() == rows-1 })
	took := time.Since(started)
	s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', 'k' || i % 50, to_jsonb(i) from
		generate_series(5001, 6000) i`)
	eventually(t, "later rows are marked", func() bool { return relayed() == rows+999 })
	t.Logf("%d rows beside the lock in %v", rows-1, took)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the row is marked when it is free", func() bool { return relayed() == rows+1000 })
	if got := len(b.All()); got != rows+1000 {
		t.Errorf("%d deliveries of %d rows", got, rows+1000)
	}
}

// What the table lacks is reported with its remedy when it is found.
func TestLacksAreLogged(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, "create table outbox_messages (id bigint primary key, topic text not null, key text, payload text not "+
		"null, relayed_at timestamptz, inserted_at timestamptz not null default now())")
	var log logtest.Log
	r := replica(t, s, b, func(c *tested) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	stop := start(t, r)
	eventually(t, "ready", func() bool { return notReady(r) == "" })
	stop()
	said := log.String()
	for _, lack := range []string{
		"no index of pending rows in their order", "there is no attempt, ",
	} {
		if !strings.Contains(said, lack) {
			t.Errorf("%q was not logged", lack)
		}
	}
	if !strings.Contains(said, "create index concurrently on") || strings.Contains(said, "null::text") ||
		strings.Contains(said, "ignored") {
		t.Errorf("the remedy is missing, or SQL for the key is there:\n%s", said)
	}
}
