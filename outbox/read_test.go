package outbox

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id text primary key, topic text not null, payload jsonb, headers jsonb, key bigint,
		relayed_at timestamptz, inserted_at timestamptz not null default now())`)
	s.Exec(t, `insert into outbox_messages values
		('a', 'orders', '{"customer": {"id": 7, "na.me": "x"}}', '{"tenant": "t1", "n": 1.50, "nested": {"a": [1, "}"]}, "esc": "a\"\u00e9\n"}', 42),
		('b', 'orders', '[]', '[]', null),
		('c', 'orders', null, '["x"]', 1)`)
	for name, test := range map[string]struct {
		key  Key
		want []string // of a, b, c
	}{
		"default":         {Key{}, []string{"42", "<nil>", "1"}},
		"column":          {Key{KeyColumn, "topic"}, []string{"orders", "orders", "orders"}},
		"header":          {Key{KeyHeader, "tenant"}, []string{"t1", "<nil>", "<nil>"}},
		"payload":         {Key{KeyPayload, "customer.id"}, []string{"7", "<nil>", "<nil>"}},
		"topic":           {Key{KeyTopic, ""}, []string{"orders", "orders", "orders"}},
		"none":            {Key{KeyNone, ""}, []string{"<nil>", "<nil>", "<nil>"}},
		"injection is no": {Key{KeyHeader, `x'y\`}, []string{"<nil>", "<nil>", "<nil>"}},
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
	want := []publisher.Header{{Name: "n", Value: "1.50", JSON: true}, {Name: "esc", Value: "a\"é\n"}, {Name: "nested", Value: `{"a": [1, "}"]}`, JSON: true}, {Name: "tenant", Value: "t1"}}
	if got := page.Rows[0].Message.Headers; !slices.Equal(got, want) {
		t.Errorf("headers %+v, want %+v", got, want)
	}
	if page.Rows[1].Invalid != nil || page.Rows[2].Invalid == nil {
		t.Errorf("[] is no header, [\"x\"] is invalid: %v, %v", page.Rows[1].Invalid, page.Rows[2].Invalid)
	}
	if m := page.Rows[2].Message; m.Payload != nil || !regexp.MustCompile(`^[0-9]+[.][0-9]+/`+s.Name+`[.]outbox_messages/c@[0-9]{16}$`).MatchString(m.DedupID) {
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
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, seq bigint not null, priority smallint)`)
		s.Exec(t, `insert into outbox_messages values (1, 't', '', null, 1, 0), (2, 't', '', null, 2, 5), (3, 't', '', null, 3, null), (4, 't', '', null, 4, 5), (5, 't', '', null, 5, -1)`)
		for _, limit := range []int{1, 2, 100} {
			if got := ids(t, open(t, s, Config{}), limit); got != "2 4 1 3 5" {
				t.Errorf("limit %d: %s", limit, got)
			}
		}
	})
	t.Run("not before", func(t *testing.T) {
		t.Parallel()
		s := pgtest.New(t)
		s.Exec(t, `create table outbox_messages (id int primary key, topic text, payload text, relayed_at timestamptz, available_at timestamp)`)
		s.Exec(t, `insert into outbox_messages values (1, 't', '', null, null), (2, 't', '', null, (now() at time zone 'UTC') + interval '1 hour'), (3, 't', '', null, (now() at time zone 'UTC') - interval '1 hour')`)
		if got := ids(t, open(t, s, Config{}), 2); got != "1 3" {
			t.Errorf("due: %s", got)
		}
	})
}

// A page stops at its bytes, takes a row that is larger alone, and goes on behind it.
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

// Every row belongs to one shard, rows of a key to the same, and reads of all shards together find all rows.
func TestShards(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz, key text, seq bigint)`)
	s.Exec(t, `insert into outbox_messages select i, 't', '', null, case when i % 2 = 0 then 'k' || i % 14 end, case when i % 5 > 0 then i end from generate_series(1, 200) i`)
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

// Within a horizon there is what was committed when it was taken: nothing of what was inserted or committed later.
func TestHorizon(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id text primary key, seq integer, topic text not null, payload jsonb, relayed_at timestamptz)`)
	table := open(t, s, Config{})
	if page := read(t, table, Query{Horizon: true}); page.Horizon == nil || page.Horizon.Highest != nil {
		t.Errorf("of an empty table: %+v", page.Horizon)
	}
	s.Exec(t, "insert into outbox_messages values ('n', null, 't', null, null)")
	if page := read(t, table, Query{Horizon: true}); page.Horizon.Highest != nil || ids(page) != "n" {
		t.Errorf("without an order value: %+v, rows %s", page.Horizon, ids(page))
	}

	ctx := t.Context()
	older, err := s.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = older.Rollback(ctx) }() // does nothing after the commit
	if _, err := older.Exec(ctx, "insert into outbox_messages values ('b', 5, 't', null, null)"); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "insert into outbox_messages values ('a', -3, 't', null, null), ('c', 7, 't', null, null), ('r', 9, 't', null, now())")
	var within *Horizon
	for name, q := range map[string]Query{"first": {Horizon: true, Limit: 1}, "recent": {Horizon: true, Recent: new(int64)}, "shards": {Horizon: true, Shards: []int{}}} {
		page := read(t, table, q)
		if within = page.Horizon; within == nil || within.Highest == nil || *within.Highest != 7 {
			t.Errorf("%s: %+v", name, page)
		}
	}
	if err := older.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "insert into outbox_messages values ('d', 6, 't', null, null), ('e', 8, 't', null, null)")
	first := Position{order: afterNulls} // behind the rows without an order value
	beyond := func(page Page) (ids string) {
		for _, r := range page.Rows {
			if r.Beyond {
				ids += r.Message.ID
			}
		}
		return ids
	}
	if page := read(t, table, Query{After: first, Within: within}); ids(page) != "abdc" || beyond(page) != "bd" || page.Beyond != 2 || page.More {
		t.Errorf("within the horizon: rows %s, beyond %s, more %t", ids(page), beyond(page), page.More)
	}
	if page := read(t, table, Query{After: first, Within: within, Limit: 3}); ids(page) != "abd" || beyond(page) != "bd" || page.Beyond != 2 || !page.More || page.End.Ordinal != 6 {
		t.Errorf("the first three: rows %s, %+v", ids(page), page)
	}
	if page := read(t, table, Query{After: first}); ids(page) != "abdce" {
		t.Errorf("all: %s", ids(page))
	}
}

func TestHorizonSees(t *testing.T) {
	t.Parallel()
	const most = 1<<32 - 1
	for _, test := range []struct {
		snapshot    string
		transaction uint32
		want        bool
	}{
		{"100:100:", 99, true}, {"100:100:", 100, false}, {"100:100:", 2, true},
		{"100:110:100,105", 100, false}, {"100:110:100,105", 101, true}, {"100:110:100,105", 105, false}, {"100:110:100,105", 110, false},
		{"4294967290:4294967300:4294967290", most, true}, {"4294967290:4294967300:4294967290", 4, false},
		{"4294967290:4294967300:4294967290,4294967299", 3, false},
		{"3000000000:3000000000:", 400, true},
		{"100:100:", 1<<31 + 50, true}, // before the counter went round
	} {
		var h Horizon
		if err := h.parse(test.snapshot); err != nil {
			t.Fatal(err)
		}
		if got := h.Sees(test.transaction); got != test.want {
			t.Errorf("%s sees %d: %t", test.snapshot, test.transaction, got)
		}
	}
	if err := new(Horizon).parse("nonsense"); err == nil {
		t.Error("nonsense is a snapshot")
	}
}
