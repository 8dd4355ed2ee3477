package outbox

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Reads for one destination go through an index in its order, whether the destination has nearly all of the pending
// rows, few or none, and whether or not the statistics are current.
func TestPlansOfAFilter(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"recommended": sql.Schema(messages), "A": pgtest.ShapeA,
		"B": pgtest.ShapeB,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, schema)
			s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at, relayed_at)
				select 'most', '{}', now(), now(), now() from generate_series(1, 20000)`)
			s.Exec(t, "analyze outbox_messages")
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at)
				select case when i % 1000 = 0 then 'few.' || i else 'most' end, '{}', now(), now() from generate_series(1, 20000)
				i`)
			plans := &planLog{}
			table, err := Open(t.Context(), plans.pool(t, s), Config{Table: messages})
			if err != nil {
				t.Fatal(err)
			}
			for _, analyzed := range []bool{false, true} {
				if analyzed {
					s.Exec(t, "analyze outbox_messages")
				}
				first := tail(t, table, Query{Most: Most{Rows: 100}})
				middle, cursor := first.Rows[50], end(first.Rows)
				for _, f := range []Filter{
					{},
					{Topics: []string{"most"}},
					{Topics: []string{"few.*"}},
					{Topics: []string{"none"}},
					{Topics: []string{"!most"}, Before: [][]string{{"few.*", "!few.1*"}}},
				} {
					view := filtered(t, table, f)
					plans.take()
					some := Most{Rows: 100}
					tail(t, view, Query{Most: some})
					tail(t, view, Query{Most: some, After: cursor})
					tail(t, view, Query{Most: some, After: cursor, Shards: []int{0}})
					tail(t, view, Query{Most: some, After: cursor, Seen: &first.Visible, Low: &middle.Position.Ordinal})
					byID(t, view, middle.ID())
					if _, err := view.Count(t.Context()); err != nil {
						t.Fatal(err)
					}
					found := 0
					for _, plan := range plans.take() {
						if !strings.Contains(plan, "outbox_messages") || strings.Contains(plan, "pg_catalog") {
							continue
						}
						found++
						byID := strings.Contains(plan, "outbox_messages_pkey") // sorts its few rows
						if !strings.Contains(plan, "Index ") || strings.Contains(plan, "Seq Scan") ||
							!byID && (strings.Contains(plan, "Bitmap") || strings.Contains(plan, ">  Sort  (")) {
							t.Errorf("%v, analyzed %v:\n%s", f, analyzed, plan)
						}
					}
					if found < 6 { // five reads, a count
						t.Errorf("%v: %d plans", f, found)
					}
				}
			}
		})
	}
}

// A page for one destination starts no parallel workers, which would read far more than the page in order to gather it.
func TestNoParallelWorkersForAFilter(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages))
	s.Exec(t, "insert into outbox_messages (topic, payload) select 'order.' || i, '{}' from generate_series(1, 5000) i")
	s.Exec(t, "vacuum analyze outbox_messages")
	plans := &planLog{}
	pool := plans.poolWith(t, s, map[string]string{
		"parallel_setup_cost": "0", "parallel_tuple_cost": "0", "min_parallel_table_scan_size": "0",
		"min_parallel_index_scan_size": "0", "max_parallel_workers_per_gather": "2",
	})
	table, err := Open(t.Context(), pool, Config{Table: messages})
	if err != nil {
		t.Fatal(err)
	}
	view := filtered(t, table, Filter{Topics: []string{"order.*"}})
	plans.take()
	page := tail(t, view, Query{Most: Most{Rows: 100}})
	tail(t, view, Query{Most: Most{Rows: 100}, After: end(page.Rows)})
	if _, err := view.Count(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := strings.Join(plans.take(), "\n")
	if strings.Contains(found, "Gather") || strings.Count(found, "outbox_messages_pending_idx") < 3 { // including a count
		t.Errorf("plans:\n%s", found)
	}
}

// An index whose predicate contains a filter serves the reads of that filter, and they step over no rows of other
// destinations.
func TestIndexOfAFilter(t *testing.T) {
	t.Parallel()
	for name, topic := range map[string]string{
		"text": "text", "varchar": "varchar(255)", "bpchar": "char(30)",
		"collation": `text collate "und-x-icu"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages (id bigint primary key, topic "+topic+
				" not null, payload text, relayed_at timestamptz)")
			s.Exec(t, `insert into outbox_messages select i, case when i % 1000 = 0 then 'o_rd''er\' || i else 'most' end, ''
				from generate_series(1, 20000) i`)
			s.Exec(t, "analyze outbox_messages")
			f := Filter{
				Topics: []string{`o_rd'er\*`, "other", "!*.internal", `!x\`},
				Before: [][]string{{"most*", "a", "b"}, {"*", "!o*"}},
			}
			table := open(t, s, Config{})
			s.Exec(t, "create index only_these on outbox_messages (id) where relayed_at is null and "+
				f.condition(table.mapping.Topic))
			// The same patterns in another order are the same filter.
			f = Filter{
				Topics: []string{`!x\`, "other", `o_rd'er\*`, "!*.internal"},
				Before: [][]string{{"b", "a", "most*"}, {"!o*", "*"}},
			}
			values := strings.NewReplacer("$1", "100", "$2", "null", "$3", "65536")
			view := filtered(t, table, f)
			plan := explain(t, s, values.Replace(view.tail.of(view, &Query{}).statement))
			if !strings.Contains(plan, "only_these") {
				t.Errorf("plan:\n%s", plan)
			}
			if n := len(tail(t, filtered(t, table, f), Query{}).Rows); n != 20 {
				t.Errorf("%d rows, want 20", n)
			}
		})
	}
}
