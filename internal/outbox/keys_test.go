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

// A read of some keys goes on after a position, row by row, and returns their rows and no others, in table order, also where
// rows have the same order value. Where no order value is certain to exist, it cannot.
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
			s.Exec(t, "insert into outbox_messages (key, topic, payload) select 'k' || i % 5, 't', "+
				"('{\"a\": {\"b\": \"k' || i % 5 || '\"}}')::jsonb from generate_series(1, 40) i")
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
			var want []string
			for _, row := range read(t, table, Query{After: first.End}).Rows {
				if key := string(row.Message.Key); key == "k2" || key == "k4" {
					want = append(want, row.Message.ID)
				}
			}
			for _, limit := range []int{1, 7} {
				var got []string
				for page := first; page.More; {
					page = read(t, table, Query{Keys: []string{"k2", "k4"}, After: page.End, Limit: limit})
					for _, row := range page.Rows {
						got = append(got, row.Message.ID)
					}
				}
				if len(want) < 15 || !slices.Equal(got, want) {
					t.Errorf("%d rows a page: %v, want %v", limit, got, want)
				}
			}
		})
	}
}

// Where no index leads to a key, such a read follows the index of pending rows and sorts nothing, even with statistics that
// were gathered while nothing was pending.
func TestPlanOfKeysAfterAPosition(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages))
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', now() from generate_series(1, 20000)")
	s.Exec(t, "analyze outbox_messages")
	s.Exec(t, "insert into outbox_messages (key, topic, payload) select 'k' || i % 1000, 't', '{}' from generate_series(1, 20000) i")
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: messages})
	if err != nil {
		t.Fatal(err)
	}
	first := read(t, table, Query{Limit: 100})
	plans.take()
	read(t, table, Query{Limit: 10, After: first.End, Keys: []string{"k7", "k8"}})
	found := 0
	for _, plan := range plans.take() {
		if !strings.Contains(plan, "k7") {
			continue
		}
		found++
		if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") ||
			strings.Contains(plan, ">  Sort  (") {
			t.Errorf("plan:\n%s", plan)
		}
	}
	if found != 1 {
		t.Errorf("%d plans: %s", found, fmt.Sprint(plans.take()))
	}
}
