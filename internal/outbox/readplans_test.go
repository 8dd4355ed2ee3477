package outbox

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Each of the engine's statements follows the index that is made for it, and passes no more of it than it returns:
// with a plan that was made once while the table was empty, with statistics and without, whatever the keys are, and
// whatever other indexes there are.
func TestPlansOfAsks(t *testing.T) {
	t.Parallel()
	const fill = `insert into outbox_messages (topic, key, payload, relayed_at, failed_at)
		select 't', %s, '{}', %s, %s from generate_series(1, %d) i`
	for name, others := range map[string]string{
		"recommended": "",
		"others": `create unique index on outbox_messages (seq); create index on outbox_messages (seq, id);
			create index on outbox_messages (key); create index on outbox_messages (key, seq) where relayed_at is null and
			failed_at is null;
			create index on outbox_messages (inserted_at); create index on outbox_messages (seq, id) where relayed_at is null;
			create index on outbox_messages (relayed_at, failed_at, seq); create index on outbox_messages (topic, seq)
			where relayed_at is null and failed_at is null; create index on outbox_messages using hash (key)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, sql.Schema(messages))
			s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
			if others != "" {
				s.Exec(t, others)
			}
			plans := &planLog{}
			pool := plans.poolOf(t, s, func(c *pgxpool.Config) {
				c.MaxConns = 1
				c.ConnConfig.RuntimeParams["auto_explain.log_analyze"] = "on"
				c.ConnConfig.RuntimeParams["auto_explain.log_buffers"] = "on"
				c.ConnConfig.RuntimeParams["auto_explain.log_timing"] = "off"
			})
			table, err := Open(t.Context(), pool, Config{Table: messages})
			if err != nil {
				t.Fatal(err)
			}
			check := func(state string) {
				t.Helper()
				vacuum(t, s) // what is relayed leaves no dead entries that a scan would pass
				var page Page
				look := func(read, index string, most int) {
					t.Helper()
					found := plans.take()
					for _, plan := range found {
						if passed := buffersOf(plan); strings.Contains(plan, "Seq Scan on outbox") || strings.Contains(plan, "Bitmap") ||
							strings.Contains(plan, ">  Sort  (") || passed > most || others == "" && !strings.Contains(plan, index) {
							t.Errorf("%s, %s: %d buffers, at most %d, of %s\n%s", state, read, passed, most, index, plan)
						}
					}
				}
				plans.take()
				some := Most{Rows: 100, Bytes: 1 << 20, First: 1 << 20}
				page = tail(t, table, Query{Most: some})
				look("tail", "outbox_messages_pending_idx", 500)
				cursor, low := Position{}, int64(0)
				var asks []Ask
				for hash := range uint64(5) {
					asks = append(asks, Ask{Hash: hash, Limit: 10}) // keys without rows
				}
				if n := len(page.Rows); n > 0 {
					cursor, low = page.Rows[n-1].Position, page.Rows[0].Position.Ordinal
					asks = append(asks, Ask{Hash: page.Rows[0].Hash, Limit: 10},
						Ask{Hash: page.Rows[0].Hash + 1, Limit: 10, From: &low})
				}
				tail(t, table, Query{After: cursor, Most: some})
				look("further", "outbox_messages_pending_idx", 500)
				tail(t, table, Query{After: cursor, Seen: &page.Visible, Low: &low, Most: some})
				look("first", "outbox_messages_pending_idx", 500)
				tail(t, table, Query{Seen: &page.Visible, Shards: []int{0, 1, 2, 3, 4, 5, 6, 7}, Most: some})
				look("first of some shards", "outbox_messages_pending_idx", 500)
				if _, err := table.Keys(t.Context(), Query{Asks: asks, Most: some}); err != nil {
					t.Fatal(err)
				}
				look("keys", "outbox_messages_key_idx", 60)
				if _, err := table.Tail(t.Context(), Query{Sweep: true, Upto: cursor, Most: Most{Rows: 100}}); err != nil {
					t.Fatal(err)
				}
				look("sweep", "outbox_messages_pending_idx", 500)
				if _, err := table.Blocked(t.Context(), Query{Most: Most{Rows: 100}}); err != nil {
					t.Fatal(err)
				}
				look("blocked", "outbox_messages_failed_idx", 500)
			}
			check("empty")
			for _, c := range []struct{ name, key, relayed, failed string }{
				{"all relayed", "'k' || i", "now()", "null"},
				{"five keys", "'k' || i % 5", "null", "null"},
				{"one key", "'k'", "null", "null"},
				{"without keys", "null", "null", "null"},
				{"failed", "'k' || i % 5", "null", "now()"},
			} {
				s.Exec(t, fmt.Sprintf(fill, c.key, c.relayed, c.failed, 10_000))
				check(c.name + ", no statistics")
				s.Exec(t, "analyze outbox_messages")
				check(c.name)
				if c.failed == "null" {
					s.Exec(t, "update outbox_messages set relayed_at = now() where relayed_at is null")
					check(c.name + ", done since")
				}
			}
		})
	}
}

// vacuum removes all dead rows of the table. It waits for other tests' transactions that may still see some.
func vacuum(t *testing.T, s *pgtest.Schema) {
	t.Helper()
	now := pgtest.Value[string](t, s, "select pg_current_xact_id()::xid::text")
	eventually(t, "older transactions have ended", func() bool {
		return pgtest.Value[bool](t, s, `select not exists (
			select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
			and greatest(age(backend_xid), age(backend_xmin)) > age($1::text::xid))`, now)
	})
	s.Exec(t, "vacuum outbox_messages")
}

var hitBuffers = regexp.MustCompile(`Buffers: shared hit=(\d+)`)

// buffersOf returns the buffers of a plan as a whole.
func buffersOf(plan string) int {
	found := hitBuffers.FindStringSubmatch(plan)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// An index that a poller written by hand left behind does not draw the reads of a table with priorities away from their
// own.
func TestPlansWithPrioritiesBesideAnotherIndex(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.SchemaNamed(messages, map[string]string{"priority": "priority"}))
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	s.Exec(t, "create index on outbox_messages (priority desc, seq) where relayed_at is null and failed_at is null")
	plans := &planLog{}
	pool := plans.poolOf(t, s, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.RuntimeParams["auto_explain.log_analyze"] = "on"
		c.ConnConfig.RuntimeParams["auto_explain.log_buffers"] = "on"
	})
	table, err := Open(t.Context(), pool, Config{Table: messages})
	if err != nil {
		t.Fatal(err)
	}
	some := Most{Rows: 100, Bytes: 1 << 20, First: 1 << 20}
	tail(t, table, Query{Most: some}) // planned while the table is empty
	for _, state := range []string{"no statistics", "statistics", "more rows than they say"} {
		s.Exec(t, "insert into outbox_messages (topic, key, payload, priority) "+
			"select 't', 'k' || i % 5, '{}', i % 3 from generate_series(1, 10000) i")
		if state == "statistics" {
			s.Exec(t, "analyze outbox_messages")
		}
		plans.take()
		page := tail(t, table, Query{Most: some})
		tail(t, table, Query{After: page.Rows[99].Position, Most: some})
		asks := []Ask{{Hash: page.Rows[0].Hash, Limit: 9}, {Hash: 1, Limit: 9}}
		if _, err := table.Keys(t.Context(), Query{Asks: asks, Most: some}); err != nil {
			t.Fatal(err)
		}
		for _, plan := range plans.take() {
			if passed := buffersOf(plan); passed > 500 || strings.Contains(plan, "_priority_seq_idx") ||
				strings.Contains(plan, ">  Sort  (") {
				t.Errorf("%s: %d buffers of\n%s", state, passed, plan)
			}
		}
	}
}
