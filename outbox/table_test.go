package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

var messages = sql.Table{Name: "outbox_messages"}

func open(t *testing.T, s *pgtest.Schema, config Config) *Table {
	t.Helper()
	if config.Table.Name == "" {
		config.Table = messages
	}
	table, err := Open(t.Context(), s.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func read(t *testing.T, table *Table, q Query) Page {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	if q.Bytes == 0 {
		q.Bytes = 1 << 30
	}
	page, err := table.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

var shapes = map[string]string{"A": pgtest.ShapeA, "B": pgtest.ShapeB, "C": pgtest.ShapeC}

// Each shape in pages, whatever the session's time zone is: order, content, mark, refusal, failure.
func TestShapes(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, shape)
			zoned, err := pgxpool.New(t.Context(), s.URL+"&TimeZone=Asia%2FTokyo")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(zoned.Close)
			table, err := Open(t.Context(), zoned, Config{Table: messages})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 25 {
				s.Exec(t, pgtest.Insert, fmt.Sprint("topic", i), fmt.Sprintf(`{"n": %d.50, "big": 12345678901234567890}`, i))
			}
			if name == "A" { // the others either forbid NULL or count from 0
				s.Exec(t, "update outbox_messages set headers = null, attempt = null where topic = 'topic3'")
			}

			var rows []Row
			for page := read(t, table, Query{Limit: 10}); ; page = read(t, table, Query{After: page.End, Limit: 10}) {
				rows = append(rows, page.Rows...)
				if !page.More {
					break
				}
			}
			if len(rows) != 25 {
				t.Fatalf("read %d rows of 25", len(rows))
			}
			var got, want []string
			for _, row := range rows {
				got = append(got, row.Message.ID)
			}
			want = append(want, pgtest.Value[[]string](t, s, "select array_agg(id::text order by inserted_at, id) from outbox_messages")...)
			if !slices.Equal(got, want) {
				t.Errorf("order %v, want %v", got, want)
			}
			first := rows[slices.IndexFunc(rows, func(r Row) bool { return r.Message.Topic == "topic3" })]
			if text := string(first.Message.Payload); text != `{"n": 3.50, "big": 12345678901234567890}` {
				t.Errorf("payload %s", text)
			}
			start := map[string]int64{"A": 1, "B": 1, "C": 0}[name]
			if first.Attempt != start || len(first.Message.Headers) != 0 {
				t.Errorf("attempt and headers read as %d, %v", first.Attempt, first.Message.Headers)
			}
			if d := time.Since(first.Message.Inserted).Abs(); d > time.Minute {
				t.Errorf("inserted %v ago", d)
			}

			if err := table.Settle(t.Context(), []string{rows[0].ID(), rows[1].ID()}); err != nil {
				t.Fatal(err)
			}
			if n := pgtest.Value[int](t, s, `select count(*) from outbox_messages where relayed_at between
				(now() at time zone 'UTC') - interval '1 minute' and (now() at time zone 'UTC') + interval '1 minute'`); n != 2 {
				t.Errorf("%d rows carry relayed_at in UTC, want 2", n)
			}
			long := strings.Repeat("é", 300) + "\x00\xff"
			written, err := table.Refuse(t.Context(), []Refusal{
				{ID: first.ID(), Attempt: start, Error: "no\x00\xff"},
				{ID: rows[9].ID(), Attempt: rows[9].Attempt, Error: long, Failed: true},
				{ID: rows[8].ID(), Attempt: 7, Error: "somebody else was here"}})
			if err != nil {
				t.Fatal(err)
			}
			if len(written) != 2 || slices.Contains(written, rows[8].ID()) {
				t.Errorf("%d refusals were written, want the two whose attempt was as read", len(written))
			}
			page := read(t, table, Query{})
			if len(page.Rows) != 22 {
				t.Fatalf("%d rows pending, want 22", len(page.Rows))
			}
			for _, row := range page.Rows {
				if row.ID() != first.ID() {
					continue
				}
				if row.Attempt != start+1 || !row.Retried || row.Waited < -time.Second || row.Waited > time.Minute {
					t.Errorf("after a refusal: attempt %d, retried %v, waited %v", row.Attempt, row.Retried, row.Waited)
				}
			}
			if text := pgtest.Value[string](t, s, "select last_error from outbox_messages where failed_at is not null"); name != "B" && text != strings.Repeat("é", 255) {
				t.Errorf("last_error was not cut to 255 characters: %d bytes", len(text))
			}
			counts, err := table.Count(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if name == "C" {
				if counts.Pending != nil || counts.Failed != nil || counts.Oldest != nil {
					t.Errorf("without indexes nothing may be measured: %+v", counts)
				}
			} else if counts.Pending == nil || *counts.Pending != 22 || counts.Failed == nil || *counts.Failed != 1 || counts.Oldest == nil || *counts.Oldest < 0 {
				t.Errorf("counts %+v", counts)
			}
		})
	}
}

// The plans that the shapes' own indexes allow: an ordered walk, never a sort of the backlog.
func TestPlans(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		if name == "C" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, shape)
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at)
				select 't', '{}', now() - i * interval '1 second', now() from generate_series(1, 5000) i`)
			s.Exec(t, "analyze outbox_messages")
			table := open(t, s, Config{})
			statement := strings.NewReplacer("$1", "100", "$2", "'2020-01-01'", "$3", "'00000000-0000-0000-0000-000000000000'").Replace(table.all.after)
			rows, err := s.Pool.Query(t.Context(), "explain "+statement)
			if err != nil {
				t.Fatal(err)
			}
			var plan strings.Builder
			for rows.Next() {
				var line string
				if err := rows.Scan(&line); err != nil {
					t.Fatal(err)
				}
				plan.WriteString(line + "\n")
			}
			if !strings.Contains(plan.String(), "Index Scan") || strings.Contains(plan.String(), "Seq Scan") || strings.Contains(plan.String(), "> Sort  (") {
				t.Errorf("plan:\n%s", &plan)
			}
		})
	}
}

func TestOpenProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setup  string
		config Config
		want   string
	}{
		"missing table":  {"", Config{}, "table outbox_messages does not exist in database"},
		"view":           {"create view outbox_messages as select 1 id", Config{}, "outbox_messages is a view"},
		"missing column": {"create table outbox_messages (id uuid, topic text, relayed_at timestamptz)", Config{}, "has no column payload: add it, or name another column with OUTBOX_COLUMNS=payload:NAME"},
		"no mark":        {"create table outbox_messages (id uuid, topic text, payload jsonb)", Config{}, "has no column relayed_at"},
		"unknown id":     {"create table outbox_messages (id numeric, topic text, payload jsonb, relayed_at timestamptz)", Config{}, "column id of table"},
		"boolean mark":   {"create table outbox_messages (id uuid, topic text, payload jsonb, relayed_at boolean)", Config{}, "has type boolean, which the relay cannot use as relayed_at"},
		"mapped to nothing": {pgtest.ShapeA, Config{Columns: map[string]string{"key": "aggregate"}},
			"has no column aggregate, which OUTBOX_COLUMNS names as key"},
		"key column": {pgtest.ShapeA, Config{Key: Key{Kind: KeyColumn, Name: "aggregate"}}, "has no column aggregate, which OUTBOX_KEY names"},
		"template":   {pgtest.ShapeA, Config{Extra: []string{"tenant"}}, "has no column tenant, which a topic template names as {tenant}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			if test.setup != "" {
				s.Exec(t, test.setup)
			}
			test.config.Table = messages
			_, err := Open(t.Context(), s.Pool, test.config)
			if setup, ok := errors.AsType[*SetupError](err); !ok || !strings.Contains(setup.Error(), test.want) || setup.Remedy == "" {
				t.Errorf("got %v, want a remedy for %q", err, test.want)
			}
		})
	}
}

func TestMissingRights(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeA)
	role := s.Name + "_role"
	s.Exec(t, "create role "+role+" login")
	t.Cleanup(func() {
		_, err := s.Pool.Exec(context.WithoutCancel(t.Context()), "drop owned by "+role+"; drop role "+role)
		if err != nil {
			t.Error(err)
		}
	})
	config := s.Pool.Config()
	config.ConnConfig.RuntimeParams["role"] = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, step := range []struct{ grant, want string }{
		{"", "no right to use schema"},
		{"grant usage on schema " + s.Name, "may not read column id"},
		{"grant select on outbox_messages", "may not update column relayed_at"},
		{"grant update (relayed_at) on outbox_messages", "may not update column attempt"},
		{"grant update (attempt, failed_at, last_error, updated_at) on outbox_messages", ""},
	} {
		if step.grant != "" {
			s.Exec(t, step.grant+" to "+role)
		}
		_, err := Open(t.Context(), pool, Config{Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}})
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("after %q: %v, want %q", step.grant, err, step.want)
		}
	}
}

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
	want := []publisher.Header{{Name: "n", Value: "1.50"}, {Name: "esc", Value: "a\"é\n"}, {Name: "nested", Value: `{"a": [1, "}"]}`}, {Name: "tenant", Value: "t1"}}
	if got := page.Rows[0].Message.Headers; !slices.Equal(got, want) {
		t.Errorf("headers %q, want %q", got, want)
	}
	if page.Rows[1].Invalid != nil || page.Rows[2].Invalid == nil {
		t.Errorf("[] is no header, [\"x\"] is invalid: %v, %v", page.Rows[1].Invalid, page.Rows[2].Invalid)
	}
	if m := page.Rows[2].Message; m.Payload != nil || m.DedupID != s.Name+".outbox_messages/c" {
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

func TestDelete(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text)`)
	s.Exec(t, `insert into outbox_messages values (1, 't', 'x'), (2, 't', 'y')`)
	table := open(t, s, Config{Delete: true})
	page := read(t, table, Query{})
	if err := table.Settle(t.Context(), []string{page.Rows[0].ID()}); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages"); n != 1 {
		t.Errorf("%d rows left, want 1", n)
	}
	if written, err := table.Refuse(t.Context(), []Refusal{{ID: page.Rows[1].ID()}}); err != nil || len(written) != 1 {
		t.Errorf("a table that keeps no refusals: %v, %v", written, err)
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
