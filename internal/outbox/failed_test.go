package outbox

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Failed rows with a key come in pages, for some shards or for all.
func TestFailed(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]string{
		"recommended": sql.Schema(sql.Table{Name: "outbox_messages"}),
		"timestamp": `create table outbox_messages (id bigint generated always as identity primary key, seq bigint generated always as identity,
			topic text, key text, payload text, relayed_at timestamp, failed_at timestamp); create index on outbox_messages (failed_at)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, shape)
			s.Exec(t, `insert into outbox_messages (topic, key, payload, failed_at, relayed_at)
				select 't' || i % 2, case when i % 10 > 0 then 'k' || i end, '{}', case when i % 3 = 0 then timestamp '2025-01-01' + i / 7 * interval
				'1 s' end,
				case when i % 30 = 3 then now() end from generate_series(1, 300) i`)
			table := open(t, s, Config{BlockFailed: true, Shards: 8})
			for _, shards := range [][]int{nil, {1, 4}} {
				want := pgtest.Value[[]string](t, s,
					"select array_agg(seq || topic || key order by seq) from outbox_messages where failed_at is not null and relayed_at is null and key "+
						"is not null"+
						strings.Replace(" and ("+table.mapping.shard()+") = any ($1)", "$1",
							map[bool]string{true: "'{0,1,2,3,4,5,6,7}'", false: "'{1,4}'"}[shards == nil], 1))
				var got []string
				for after := (Position{}); ; {
					page, err := table.Failed(t.Context(), Query{After: after, Shards: shards, Limit: 7})
					if err != nil {
						t.Fatal(err)
					}
					for _, row := range page.Rows {
						got = append(got, fmt.Sprint(row.Ordinal)+row.Topic+row.Key)
					}
					if after = page.End; !page.More {
						break
					}
				}
				byOrder := func(a, b string) int {
					var x, y int
					_, _ = fmt.Sscan(strings.Split(a, "t")[0], &x)
					_, _ = fmt.Sscan(strings.Split(b, "t")[0], &y)
					return x - y
				}
				slices.SortFunc(got, byOrder)
				if !slices.Equal(got, want) {
					t.Errorf("shards %v: %q, want %q", shards, got, want)
				}
			}
		})
	}
}

// A read may leave out rows that failed longer ago, by the database's clock, whatever the session's time zone is.
func TestFailedLately(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"timestamp", "timestamptz"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "set time zone 'Asia/Tokyo'")
			s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, key text, payload text, relayed_at timestamptz, failed_at `+
				kind+`); create index on outbox_messages (failed_at, id)`)
			clock := map[string]string{"timestamp": "now() at time zone 'UTC'", "timestamptz": "now()"}[kind]
			s.Exec(t, "insert into outbox_messages (id, topic, key, failed_at) select i, 't', 'k' || i, "+clock+
				" - i * interval '1 minute' from generate_series(0, 9) i")
			table := open(t, s, Config{BlockFailed: true})
			for back, want := range map[time.Duration]int{0: 10, 150 * time.Second: 3, time.Hour: 10} {
				page, err := table.Failed(t.Context(), Query{Back: back, Limit: 100})
				if err != nil || len(page.Rows) != want {
					t.Errorf("%d rows failed within %v, want %d: %v", len(page.Rows), back, want, err)
				}
			}
		})
	}
}

// Statistics of an empty table must not make a read of failed rows start parallel workers, nor fetch and sort: 100,000 rows of
// which none had failed took 21 ms for each page of them.
func TestPlanOfFailedRowsOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	s.Exec(t, "analyze outbox_messages")
	s.Exec(t, `insert into outbox_messages (topic, key, payload)
		select 't', i::text, to_jsonb(repeat('x', 500)) from generate_series(1, 50000) i`)
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: messages, BlockFailed: true})
	if err != nil {
		t.Fatal(err)
	}
	plans.take()
	for _, q := range []Query{{Limit: 1000}, {Limit: 1000, Back: time.Minute}} {
		if _, err := table.Failed(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	for _, plan := range plans.take() {
		if !strings.Contains(plan, "outbox_messages") || strings.Contains(plan, "pg_catalog") {
			continue
		}
		if found++; !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Gather") || strings.Contains(plan, "Bitmap") {
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
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id bigint primary key, topic text, key text, payload text, relayed_at timestamptz, failed_at "+
		"timestamptz)")
	_, err := Open(t.Context(), s.Pool, Config{Table: messages, BlockFailed: true})
	if err == nil || !strings.Contains(err.Error(), "BlockFailed") {
		t.Fatalf("opened without an index: %v", err)
	}
	named := View{Name: "default", BlockFailed: true, Names: func(string) string { return "ON_FAILED=block" }}
	if _, err := Open(t.Context(), s.Pool, Config{Table: messages, Views: []View{named}}); err == nil ||
		!strings.Contains(err.Error(), "ON_FAILED=block") || strings.Contains(err.Error(), "BlockFailed") {
		t.Errorf("the user does not know the setting by that name: %v", err)
	}
	_, remedy, _ := strings.Cut(err.Error(), "create one (")
	remedy, _, _ = strings.Cut(remedy, "), or")
	if _, err := Open(t.Context(), s.Pool, Config{Table: messages, BlockFailed: true, Key: rowkey.Source{Kind: rowkey.None}}); err != nil {
		t.Errorf("without keys: %v", err)
	}
	s.Exec(t, remedy)
	table := open(t, s, Config{BlockFailed: true})
	s.Exec(t, "insert into outbox_messages select i, 't', 'k' || i % 50, '', case when i % 100 > 0 then now() end, case when i % 1000 = 0 "+
		"then now() end from generate_series(1, 50000) i")
	s.Exec(t, "analyze outbox_messages")
	plan := explain(t, s, strings.NewReplacer("$1", "1000", "$2", "null", "$3", "null", "$4", "null").Replace(table.failedAll))
	if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("plan:\n%s", plan)
	}
}

// A failed row without an order value comes before all others. The scan that brings it when it has been retried begins there.
func TestFailedRowWithoutAnOrderValue(t *testing.T) {
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint generated always as identity primary key, seq bigint, topic text, key text,
		payload text, relayed_at timestamptz, failed_at timestamptz); create index on outbox_messages (failed_at, id)`)
	s.Exec(t, `insert into outbox_messages (topic, key, payload, failed_at) values ('t', 'k', '{}', now())`)
	table := open(t, s, Config{BlockFailed: true, Shards: 8})
	page, err := table.Failed(t.Context(), Query{Limit: 7})
	if err != nil || len(page.Rows) != 1 || page.Rows[0].Ordinal != math.MinInt64 {
		t.Errorf("%+v, %v", page.Rows, err)
	}
}
