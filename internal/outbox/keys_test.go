package outbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A read of some keys goes on after a position, row by row, and returns their rows and no others, or also those without a key, in
// table order, also where rows have the same order value. Where no order value is certain to exist, it cannot.
func TestKeysAfterAPosition(t *testing.T) {
	t.Parallel()
	const notNull = "bigint not null default 0"
	for name, shape := range map[string]string{
		"order and id": sql.Schema(messages),
		"order alone": `create table outbox_messages (seq bigint generated always as identity primary key, key text, topic text, payload text,
			relayed_at timestamptz); create index on outbox_messages (seq) where relayed_at is null`,
		"index by key": sql.Schema(messages) + "; create index on outbox_messages (key, seq) where relayed_at is null and failed_at is null",
		"equal values": sql.Schema(messages) + "; alter table outbox_messages drop column seq, add seq " + notNull +
			"; create index on outbox_messages (seq, id) where relayed_at is null and failed_at is null",
		"key in the payload": sql.Schema(messages) + "; alter table outbox_messages alter payload type jsonb using payload::jsonb",
		"nullable": sql.Schema(messages) + "; alter table outbox_messages alter seq drop identity, alter seq drop not null" +
			"; create index on outbox_messages (key, seq) where relayed_at is null and failed_at is null",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, shape)
			s.Exec(t, "insert into outbox_messages (key, topic, payload) select nullif('k' || i % 5, 'k1'), 't', "+
				"('{\"a\": {\"b\": ' || case when i % 5 = 1 then 'null' else '\"k' || i % 5 || '\"' end || '}}')::jsonb from generate_series(1, 40) i")
			config := Config{}
			switch name {
			case "order alone":
				config.Columns = map[string]string{"id": "seq"}
			case "key in the payload":
				config.Key = rowkey.Source{Kind: rowkey.Payload, Name: "a.b"}
			}
			table := open(t, s, config)
			if filters := table.KeyFiltered(); filters != (name != "nullable") {
				t.Errorf("rows of other keys can be left out: %t", filters)
			}
			if indexed := table.KeyIndexed(); indexed != (name == "index by key") {
				t.Errorf("keys are read by an index: %t", indexed)
			}
			if name == "nullable" {
				return
			}
			first := read(t, table, Query{Limit: 1})
			for _, q := range []Query{
				{Keys: []string{"k2", "k4"}},
				{Keys: []string{"k2", "k4"}, NullKey: true},
				{Keys: []string{}, NullKey: true},
				{Keys: []string{"k2"}, NullKey: true, Shards: []int{0, 1, 2, 3, 4, 5, 6, 7}},
			} {
				var want []string
				for _, row := range read(t, table, Query{After: first.End, Shards: q.Shards}).Rows {
					if row.Message.Key == nil && q.NullKey || slices.Contains(q.Keys, string(row.Message.Key)) {
						want = append(want, row.Message.ID)
					}
				}
				for _, q.Limit = range []int{1, 7} {
					var got []string
					for page := first; page.More; {
						q.After = page.End
						page = read(t, table, q)
						for _, row := range page.Rows {
							got = append(got, row.Message.ID)
						}
					}
					if len(want) < 7 && q.Shards == nil || !slices.Equal(got, want) {
						t.Errorf("%+v: %v, want %v", q, got, want)
					}
				}
			}
		})
	}
}

// Where no index leads to a key, or rows without a key are wanted, such a read follows the index of pending rows and sorts nothing,
// even with statistics that were gathered while nothing was pending.
func TestPlanOfKeysAfterAPosition(t *testing.T) {
	t.Parallel()
	for name, index := range map[string]string{
		"no index by key": "", "an index by key": "create index on outbox_messages (key, seq) where relayed_at is null and failed_at is null",
	} {
		for _, q := range []Query{{}, {NullKey: true}, {NullKey: true, Shards: []int{0, 3}}} {
			if index == "" || q.NullKey {
				t.Run(fmt.Sprint(name, ", without a key ", q.NullKey, ", shards ", q.Shards), func(t *testing.T) {
					t.Parallel()
					planOfKeys(t, index, q)
				})
			}
		}
	}
}

func planOfKeys(t *testing.T, index string, q Query) {
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages)+";"+index)
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', now() from generate_series(1, 20000)")
	s.Exec(t, "analyze outbox_messages")
	s.Exec(t, "insert into outbox_messages (key, topic, payload) select nullif('k' || i % 1000, 'k3'), 't', '{}' from "+
		"generate_series(1, 20000) i")
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: messages})
	if err != nil {
		t.Fatal(err)
	}
	first := read(t, table, Query{Limit: 100})
	plans.take()
	q.Limit, q.After, q.Keys = 10, first.End, []string{"k7", "k8"}
	read(t, table, q)
	found := 0
	for _, plan := range plans.take() {
		if !strings.Contains(plan, "k7") {
			continue
		}
		found++
		if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") ||
			strings.Contains(plan, ">  Sort  (") || strings.Contains(plan, "key_seq") {
			t.Errorf("plan:\n%s", plan)
		}
	}
	if found != 1 {
		t.Errorf("%d plans: %s", found, fmt.Sprint(plans.take()))
	}
}
