package outbox

import (
	"math"
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
	s.Exec(t, `create table outbox_messages (id text primary key, topic text not null, payload jsonb, headers jsonb, key bigint,
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
		page := read(t, open(t, s, Config{Key: test.key}), Query{})
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
	page := read(t, open(t, s, Config{}), Query{})
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
	byKey := read(t, open(t, s, Config{}), Query{Keys: []string{"1", "42"}, Limit: 1})
	if len(byKey.Rows) != 1 || byKey.Rows[0].Message.ID != "a" || !byKey.More {
		t.Errorf("read by key: %+v", byKey)
	}
	byID := read(t, open(t, s, Config{}), Query{IDs: []string{"b", "nobody"}})
	if len(byID.Rows) != 1 || byID.Rows[0].Message.ID != "b" || byID.More {
		t.Errorf("read by id: %+v", byID)
	}
}

// Rows without an order value come first, by id; a larger priority comes before everything.
func TestOrder(t *testing.T) {
	t.Parallel()
	ids := func(t *testing.T, table *Table, limit int) string {
		var got []string
		for page := read(t, table, Query{Limit: limit}); ; page = read(t, table, Query{After: page.End, Limit: limit}) {
			for _, row := range page.Rows {
				got = append(got, row.Message.ID)
			}
			if !page.More {
				return strings.Join(got, " ")
			}
		}
	}
	t.Run("nulls", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, seq bigint)`)
		s.Exec(t, `insert into outbox_messages select i, 't', 'p', null, case when i % 3 = 0 then 100 - i end from generate_series(1, 12) i`)
		for _, limit := range []int{1, 4, 100} {
			if got := ids(t, open(t, s, Config{}), limit); got != "1 2 4 5 7 8 10 11 12 9 6 3" {
				t.Errorf("limit %d: %s", limit, got)
			}
		}
	})
	t.Run("priority", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, seq bigint not null,
			priority smallint)`)
		s.Exec(t, `insert into outbox_messages values (1, 't', '', null, 1, 0), (2, 't', '', null, 2, 5), (3, 't', '', null, 3, null), (4, 't',
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
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, priority bigint)`)
		s.Exec(t, `insert into outbox_messages values (1, 't', '', null, -9223372036854775808), (2, 't', '', null, 0), (3, 't', '', null,
			9223372036854775807), (4, 't', '', null, -9223372036854775807), (5, 't', '', null, null)`)
		if got := ids(t, open(t, s, Config{}), 2); got != "3 2 5 4 1" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("not before", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, available_at timestamp)`)
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
	s.Exec(t, `insert into outbox_messages select i, 't', convert_to(repeat('x', 10000), 'UTF8') from generate_series(1, 5) i`)
	table := open(t, s, Config{})
	page := read(t, table, Query{Bytes: 15000})
	if len(page.Rows) != 2 || !page.More || len(page.Rows[0].Message.Payload) != 10000 {
		t.Fatalf("%d rows, more %v", len(page.Rows), page.More)
	}
	page = read(t, table, Query{After: page.End, Bytes: 1})
	if len(page.Rows) != 1 || page.Rows[0].Message.ID != "3" {
		t.Errorf("%d rows", len(page.Rows))
	}
	upto := page.End.Ordinal
	if page = read(t, table, Query{Upto: &upto}); len(page.Rows) != 2 || page.More {
		t.Errorf("%d rows before the third, more %v", len(page.Rows), page.More)
	}
	recent := upto
	if page = read(t, table, Query{Recent: &recent}); len(page.Rows) != 3 {
		t.Errorf("%d recent rows, want 3", len(page.Rows))
	}
}

// Every row belongs to one shard, rows of a key to the same shard, and reads of all shards together find all rows.
func TestShards(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz, key text, seq bigint)`)
	s.Exec(t, `insert into outbox_messages select i, 't', '', null, case when i % 2 = 0 then 'k' || i % 14 end,
		case when i % 5 > 0 then i end from generate_series(1, 200) i`)
	table := open(t, s, Config{Shards: 4})
	seen, keys := map[string]int{}, map[string]int{}
	for _, shards := range [][]int{{0, 2}, {1}, {3}} {
		for page := read(t, table, Query{Shards: shards, Limit: 7}); ; page = read(t, table, Query{Shards: shards, After: page.End, Limit: 7}) {
			for _, row := range page.Rows {
				seen[row.Message.ID]++
				if !slices.Contains(shards, row.Shard) {
					t.Errorf("row of shard %d in a read of %v", row.Shard, shards)
				}
				key, keyed := row.Key()
				if before, ok := keys[key]; keyed && ok && before != row.Shard {
					t.Errorf("key %s is in shards %d and %d", key, before, row.Shard)
				}
				keys[strings.Clone(key)] = row.Shard
			}
			if !page.More {
				break
			}
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d of 200 rows found", len(seen))
	}
	recent := int64(150)
	if n := len(read(t, table, Query{Recent: &recent, Shards: []int{0, 1, 2, 3}}).Rows); n != 40 {
		t.Errorf("%d recent rows, want 40", n)
	}
}

// A read that ends before the lowest order value reads no row that has one.
func TestUptoTheLowestOrdinal(t *testing.T) {
	lowest := int64(math.MinInt64)
	if upto := (&Query{Upto: &lowest}).upto(); upto > lowest {
		t.Errorf("the read goes on to %d", upto)
	}
}
