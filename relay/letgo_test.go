package relay

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// guardedTable is a table some of whose rows cannot be marked.
type guardedTable struct {
	*simTable
	guarded map[string]bool
}

func (g *guardedTable) guards(rows []*outbox.Row) bool {
	return slices.ContainsFunc(rows, func(r *outbox.Row) bool { return g.guarded[r.ID()] })
}

func (g *guardedTable) Settle(ctx context.Context, rows []*outbox.Row, free bool) (map[string]error, error) {
	if g.guards(rows) {
		return nil, errSimRejected
	}
	return g.simTable.Settle(ctx, rows, free)
}

// moving returns a replica that owns everything and has published some rows that it cannot settle, and another replica.
func moving(s *sim, table tableView) (first, second *simOwner, stop func()) {
	first, second = s.owner, newSimOwner(0)
	endFirst, firstDone := s.startOn(table)
	s.owner, s.destinations = second, []*Destination{s.destination("default", s.Broker)}
	endSecond, secondDone := s.startOn(table)
	return first, second, func() {
		endFirst()
		endSecond()
		<-firstDone
		<-secondDone
	}
}

// moved waits until all shards have moved, and returns how long that took.
func moved(t *testing.T, first, second *simOwner, limit time.Duration) time.Duration {
	t.Helper()
	started := time.Now()
	for shard := range simShards {
		first.give(shard, second)
	}
	for {
		state, changed := second.State()
		if state.Owned.Len() == simShards {
			return time.Since(started)
		}
		select {
		case <-changed:
		case <-time.After(limit):
			left, _ := first.State()
			t.Fatalf("%v later the first still holds %v, the second has %v", limit, left.Leaving.Shards(), state.Owned.Shards())
		}
	}
}

// Rows that the database refuses to mark do not keep their shards. The next owner takes the shards over at once,
// publishes those rows once, and relays all other rows.
func TestShardsLeaveUnmarkableRows(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 100} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				table := &guardedTable{s.table, map[string]bool{}}
				for i := range rows {
					id := fmt.Sprintf("g%d-0", i)
					table.guarded[id] = true
					s.table.insert(int64(i), id, fmt.Sprintf("g%d", i), "t")
				}
				first, second, stop := moving(s, table)
				defer stop()
				time.Sleep(3 * time.Second) // they are known as unmarkable
				if took := moved(t, first, second, time.Minute); took > 2*time.Second {
					t.Errorf("the shards moved after %v", took)
				}
				for i := range 100 {
					s.table.insert(int64(1000+i), fmt.Sprintf("k%d-%d", i%20, i), fmt.Sprintf("k%d", i%20), "t")
				}
				time.Sleep(time.Minute)
				if pending := s.table.pending(); len(pending) != rows {
					t.Errorf("%d rows pending, want %d: %.200q", len(pending), rows, pending)
				}
				if _, twice := firsts(s.All()); twice != rows {
					t.Errorf("%d duplicates, want one for each of %d rows", twice, rows)
				}
				checkOrder(t, s.All())
			})
		})
	}
}

// Rows that an application keeps locked, accepted and refused ones, keep their shards for a limited time.
func TestShardsLeaveLockedRowsAfterAWhile(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 100} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				first, second, stop := moving(s, s.table)
				defer stop()
				s.past(t)
				n := s.fill(keys, 3, "t")
				var refused int
				for i := 0; i < keys; i += 3 {
					s.Refuse(fmt.Sprintf("k%d-1", i), 1)
					refused++
				}
				s.table.lock(func(id string) bool { return id[len(id)-1] == '1' }) // one row of each key
				time.Sleep(3 * time.Second)
				if took := moved(t, first, second, time.Minute); took < s.limits.Patience && keys > 1 ||
					took > s.limits.Patience+3*time.Second {
					t.Errorf("the shards moved after %v", took)
				}
				s.table.insert(int64(n), "o-0", "o", "t")
				time.Sleep(3 * time.Second)
				if !s.table.row("o-0").relayed {
					t.Error("a row of another key waits")
				}
				s.table.lock(func(string) bool { return false })
				s.table.drained(t, time.Minute)
				if _, twice := firsts(s.All()); twice != keys-refused {
					t.Errorf("%d duplicates, want one for each of %d rows that were accepted and locked", twice, keys-refused)
				}
				checkOrder(t, s.All())
			})
		})
	}
}

// A shard that comes back and is released again waits for the full time again: the time does not run while this replica
// owns the shard.
func TestPatienceBeginsAgain(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		first, second, stop := moving(s, s.table)
		defer stop()
		s.past(t)
		s.table.insert(0, "k-0", "k", "t")
		s.table.lock(func(string) bool { return true })
		time.Sleep(3 * time.Second)
		shard := simShard("k", "")
		first.give(shard, second)
		time.Sleep(s.limits.Patience - time.Second)
		first.update(func() {
			first.state.Leaving = first.state.Leaving.Without(shardAlone(shard))
			first.state.Owned.Add(shard)
		})
		time.Sleep(time.Second)
		first.give(shard, second)
		time.Sleep(s.limits.Patience - 2*time.Second)
		if state, _ := second.State(); state.Owned.Has(shard) {
			t.Error("given away too early")
		}
		time.Sleep(4 * time.Second)
		if state, _ := second.State(); !state.Owned.Has(shard) {
			t.Error("not given away")
		}
		s.table.lock(func(string) bool { return false })
		s.table.drained(t, time.Minute)
	})
}

// lockedInFlight inserts rows, each with a key of its own, and lets the broker take them when they are locked, until
// unlock is called or the test ends. Before, it lets a row be relayed, so that their marks are not tried.
func lockedInFlight(t *testing.T, s *pgtest.Schema, b *publishertest.Broker, rows int) (unlock func()) {
	t.Helper()
	s.Exec(t, "insert into outbox_messages (topic, key, payload) values ('t', 'first', '1')")
	eventually(t, "a row is relayed", func() bool {
		return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is not null") == 1
	})
	b.Hold()
	s.Exec(t, `insert into outbox_messages (topic, key, payload)
		select 't', 'k' || i, to_jsonb(i) from generate_series(1, $1::int) i`, rows)
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock = func() { _ = tx.Rollback(context.Background()) } // also at the end, when it may already be rolled back
	t.Cleanup(unlock)
	if _, err := tx.Exec(t.Context(), "select from outbox_messages for update"); err != nil {
		t.Fatal(err)
	}
	b.Release()
	b.Await(t, 1+rows)
	return unlock
}

// When the control connection ends while an application keeps rows locked, this replica owns everything again at once
// and relays all other rows, however long a clean stop may take.
func TestControlConnectionEndsBesideLockedRows(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = s.Name
	r := replica(t, s, b, func(c *tested) {
		c.StopTimeout = time.Hour
		c.connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	})
	const rows = 100
	stop := start(t, r)
	unlock := lockedInFlight(t, s, b, rows)
	eventually(t, "the rows are known as locked", func() bool {
		return allOf(r.config.Destinations).InFlight == rows
	})
	s.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", s.Name)
	eventually(t, "it owns nothing", func() bool { return !firstState(r).Holds() })
	eventually(t, "it owns everything again", func() bool { return firstState(r).Owned.Len() == 16 })
	s.Exec(t, "insert into outbox_messages (topic, key, payload) values ('t', 'other', '1')")
	eventually(t, "a row of another key is relayed", func() bool {
		return pgtest.Value[int](t, s,
			"select count(*) from outbox_messages where key = 'other' and relayed_at is not null") == 1
	})
	unlock()
	eventually(t, "all rows are relayed", func() bool {
		return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null") == 0
	})
	stop()
	if got := len(b.All()); got > 2*rows+2 {
		t.Errorf("%d deliveries of %d rows", got, rows+2)
	}
}
