package outbox

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id text primary key, topic text not null, payload jsonb, headers jsonb, key
		bigint,
		relayed_at timestamptz, inserted_at timestamptz not null default now())`)
	s.Exec(t, `insert into outbox_messages values
		('a', 'orders', '{"customer": {"id": 7, "na.me": "x"}}',
		'{"tenant": "t1", "n": 1.50, "nested": {"a": [1, "}"]}, "esc": "a\"\u00e9\n"}', 42),
		('b', 'orders', '[]', '[]', null),
		('c', 'orders', null, '["x"]', 1)`)
	for name, test := range map[string]struct {
		key  rowkey.Source
		want []string // expected rows of a, b, c
	}{
		"default":      {rowkey.Source{}, []string{"42", "<nil>", "1"}},
		"column":       {rowkey.Source{Kind: rowkey.Column, Name: "topic"}, []string{"orders", "orders", "orders"}},
		"header":       {rowkey.Source{Kind: rowkey.Header, Name: "tenant"}, []string{"t1", "<nil>", "<nil>"}},
		"payload":      {rowkey.Source{Kind: rowkey.Payload, Name: "customer.id"}, []string{"7", "<nil>", "<nil>"}},
		"topic":        {rowkey.Source{Kind: rowkey.Topic, Name: ""}, []string{"orders", "orders", "orders"}},
		"none":         {rowkey.Source{Kind: rowkey.None, Name: ""}, []string{"<nil>", "<nil>", "<nil>"}},
		"no injection": {rowkey.Source{Kind: rowkey.Header, Name: `x'y\`}, []string{"<nil>", "<nil>", "<nil>"}},
	} {
		page := tail(t, open(t, s, Config{Key: test.key}), Query{})
		for i, row := range page.Rows {
			got := "<nil>"
			if row.Message.Key != nil {
				got = string(row.Message.Key)
			}
			if got != test.want[i] {
				t.Errorf("%s: key of %s is %q, want %q", name, row.Message.ID, got, test.want[i])
			}
		}
	}
	page := tail(t, open(t, s, Config{}), Query{})
	want := []publisher.Header{
		{Name: "n", Value: "1.50", JSON: true},
		{Name: "esc", Value: "a\"é\n"},
		{Name: "nested", Value: `{"a": [1, "}"]}`, JSON: true},
		{Name: "tenant", Value: "t1"},
	}
	if got := page.Rows[0].Message.Headers; !slices.Equal(got, want) {
		t.Errorf("headers %+v, want %+v", got, want)
	}
	if page.Rows[1].Invalid != nil || page.Rows[2].Invalid == nil {
		t.Errorf("[] is not a header, [\"x\"] is invalid: %v, %v", page.Rows[1].Invalid, page.Rows[2].Invalid)
	}
	if m := page.Rows[2].Message; m.Payload != nil ||
		!regexp.MustCompile(`^[0-9]+[.][0-9]+/`+s.Name+`[.]outbox_messages/c@[0-9]{16}$`).MatchString(m.DedupID) {
		t.Errorf("payload %v, dedup id %q", m.Payload, m.DedupID)
	}
	if found := byID(t, open(t, s, Config{}), "b", "nobody"); len(found) != 1 || found[0].Message.ID != "b" {
		t.Errorf("read by id: %+v", found)
	}
}

// Rows without an order value come last, by id; a larger priority comes before everything.
func TestOrder(t *testing.T) {
	t.Parallel()
	ids := func(t *testing.T, table *Table, limit int) string {
		var got []string
		for _, row := range scan(t, table, Query{}, limit) {
			got = append(got, row.Message.ID)
		}
		return strings.Join(got, " ")
	}
	t.Run("nulls", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, seq
			bigint)`)
		s.Exec(t, `insert into outbox_messages select i, 't', 'p', null, case when i % 3 = 0 then 100 - i end from
			generate_series(1, 12) i`)
		for _, limit := range []int{1, 4, 100} {
			table := open(t, s, Config{})
			page := tail(t, table, Query{Most: Most{Rows: limit}})
			var rows []string
			for range 12 { // as they are relayed
				for i := range page.Rows {
					rows = append(rows, page.Rows[i].Message.ID)
				}
				if len(rows) >= 12 {
					break
				}
				s.Exec(t, "update outbox_messages set relayed_at = now() where id = any ($1)", rows)
				page = tail(t, table, Query{After: end(page.Rows), Seen: &page.Visible, Most: Most{Rows: limit}})
			}
			if got := strings.Join(rows, " "); got != "12 9 6 3 1 2 4 5 7 8 10 11" {
				t.Errorf("limit %d: %s", limit, got)
			}
			s.Exec(t, "update outbox_messages set relayed_at = null")
		}
		table := open(t, s, Config{})
		hash := tail(t, table, Query{}).Rows[11].Hash
		if page, err := table.Keys(t.Context(),
			Query{Asks: []Ask{{Hash: hash, Limit: 9}}, Most: anyNumber}); err != nil ||
			idsOf(page.Keys[0].Rows) != "11" || table.Ordinal() {
			t.Errorf("the row of a key: %v, %v", page.Keys, err)
		}
	})
	t.Run("priority", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, seq
			bigint not null,
			priority smallint)`)
		s.Exec(t, `insert into outbox_messages values (1, 't', '', null, 1, 0), (2, 't', '', null, 2, 5), (3, 't', '', null,
			3, null), (4, 't',
			'', null, 4, 5), (5, 't', '', null, 5, -1)`)
		for _, limit := range []int{1, 2, 100} {
			if got := ids(t, open(t, s, Config{}), limit); got != "2 4 1 3 5" {
				t.Errorf("limit %d: %s", limit, got)
			}
		}
	})
	t.Run("extreme priorities", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz,
			priority bigint)`)
		s.Exec(t, `insert into outbox_messages values (1, 't', '', null, -9223372036854775808), (2, 't', '', null, 0), (3,
			't', '', null,
			9223372036854775807), (4, 't', '', null, -9223372036854775807), (5, 't', '', null, null)`)
		if got := ids(t, open(t, s, Config{}), 2); got != "3 2 5 4 1" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("not before", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz,
			available_at timestamp)`)
		s.Exec(t, `insert into outbox_messages values (1, 't', '', null, null), (2, 't', '', null,
			(now() at time zone 'UTC') + interval '1 hour'), (3, 't', '', null, (now() at time zone 'UTC') - interval '1 hour')`)
		if got := ids(t, open(t, s, Config{}), 2); got != "1 3" {
			t.Errorf("due: %s", got)
		}
	})
}

// A page stops at its limit of bytes, takes a larger row alone, and continues after it.
func TestReadBytes(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload bytea, relayed_at timestamptz)`)
	s.Exec(t, `insert into outbox_messages select i, 't', convert_to(repeat('x', 10000), 'UTF8') from generate_series(1,
		5) i`)
	table := open(t, s, Config{})
	page := tail(t, table, Query{Most: Most{Bytes: 25000}})
	if len(page.Rows) != 2 || !page.Full || len(page.Rows[0].Message.Payload) != 10000 {
		t.Fatalf("%d rows, full %v", len(page.Rows), page.Full)
	}
	cursor := end(page.Rows)
	page = tail(t, table, Query{After: cursor, Most: Most{Bytes: 1}})
	if len(page.Rows) != 1 || page.Rows[0].Message.ID != "3" {
		t.Errorf("%d rows", len(page.Rows))
	}
	page = tail(t, table, Query{After: cursor, Most: Most{Bytes: 1, First: 1}})
	if len(page.Rows) != 0 || page.Wants < 10000 {
		t.Errorf("%d rows, one wants %d bytes", len(page.Rows), page.Wants)
	}
}

// Every row belongs to one shard, rows of a key to the same shard, and reads of all shards together find all rows.
func TestShards(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz, key
		text,
		seq bigint not null)`)
	s.Exec(t, `insert into outbox_messages select i, 't', '', null, case when i % 2 = 0 then 'k' || i % 14 end, i
		from generate_series(1, 200) i`)
	table := open(t, s, Config{Shards: 4})
	seen, keys := map[string]int{}, map[string]int{}
	for _, shards := range [][]int{{0, 2}, {1}, {3}} {
		for _, row := range scan(t, table, Query{Shards: shards}, 7) {
			seen[row.Message.ID]++
			if !slices.Contains(shards, row.Shard) {
				t.Errorf("row of shard %d in a read of %v", row.Shard, shards)
			}
			key, keyed := string(row.Message.Key), row.Message.Key != nil
			if before, ok := keys[key]; keyed && ok && before != row.Shard {
				t.Errorf("key %s is in shards %d and %d", key, before, row.Shard)
			}
			keys[key] = row.Shard
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d of 200 rows found", len(seen))
	}
}
