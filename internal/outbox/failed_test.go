package outbox

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Statistics of an empty table must not make a read of failed rows start parallel workers, nor fetch and sort: 100,000
// rows of which none had failed took 21 ms for each page of them.
func TestPlanOfFailedRowsOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	s.Exec(t, "analyze outbox_messages")
	s.Exec(t, `insert into outbox_messages (topic, key, payload)
		select 't', i::text, to_jsonb(repeat('x', 500)) from generate_series(1, 50000) i`)
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: messages, Views: []View{{BlockFailed: true}}})
	if err != nil {
		t.Fatal(err)
	}
	plans.take()
	for _, q := range []Query{{Most: Most{Rows: 1000}}, {Shards: []int{0}, Most: Most{Rows: 1000}}} {
		if _, err := table.Blocked(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	for _, plan := range plans.take() {
		if !strings.Contains(plan, "outbox_messages") || strings.Contains(plan, "pg_catalog") {
			continue
		}
		if found++; !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Gather") ||
			strings.Contains(plan, "Bitmap") {
			t.Errorf("plan:\n%s", plan)
		}
	}
	if found != 2 {
		t.Errorf("%d plans of 2 statements", found)
	}
}

// Without an index each read of the failed rows would scan the whole table.
func TestBlockFailedNeedsAnIndex(t *testing.T) {
	t.Parallel()
	for _, partitions := range []string{
		"", "partition by hash (id); create table part partition of outbox_messages for values with (modulus 1, remainder 0)",
	} {
		blockFailedNeedsAnIndex(t, "create table outbox_messages (id bigint primary key, topic text, key text, payload text, "+
			"relayed_at timestamptz, failed_at timestamptz) "+partitions)
	}
}

func blockFailedNeedsAnIndex(t *testing.T, ddl string) {
	t.Helper()
	s := pgtest.New(t)
	s.Exec(t, ddl)
	_, err := Open(t.Context(), s.Pool, Config{Table: messages, Views: []View{{BlockFailed: true}}})
	if err == nil || !strings.Contains(err.Error(), "BlockFailed") {
		t.Fatalf("opened without an index: %v", err)
	}
	named := View{Name: "default", BlockFailed: true, Names: func(string) string { return "ON_FAILED=block" }}
	if _, err := Open(t.Context(), s.Pool, Config{Table: messages, Views: []View{named}}); err == nil ||
		!strings.Contains(err.Error(), "ON_FAILED=block") || strings.Contains(err.Error(), "BlockFailed") {
		t.Errorf("the user does not know the setting by that name: %v", err)
	}
	_, remedy, _ := strings.Cut(err.Error(), "no index on them: ")
	remedy, _, _ = strings.Cut(remedy, " or remove")
	keyless := Config{Table: messages, Views: []View{{BlockFailed: true}}, Key: rowkey.Source{Kind: rowkey.None}}
	if _, err := Open(t.Context(), s.Pool, keyless); err != nil {
		t.Errorf("without keys: %v", err)
	}
	s.Exec(t, remedy)
	table := open(t, s, Config{Views: []View{{BlockFailed: true}}})
	s.Exec(t, "insert into outbox_messages select i, 't', 'k' || i % 50, '', case when i % 100 > 0 then now() end, case "+
		"when i % 1000 = 0 "+
		"then now() end from generate_series(1, 50000) i")
	s.Exec(t, "analyze outbox_messages")
	plan := explain(t, s, strings.NewReplacer("$1", "1000", "$2", "null", "$3", "1024").Replace(
		table.failed.of(table, &Query{}).statement))
	if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("plan:\n%s", plan)
	}
}
