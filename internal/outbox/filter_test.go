package outbox

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// filtered returns the table as seen by a destination that keeps its state in the columns of the table.
func filtered(t *testing.T, table *Table, f Filter) *Table {
	t.Helper()
	view, err := table.For(View{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// A filter that takes everything changes no statement, and so neither plans nor costs.
func TestFilterThatTakesEverything(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages)+delaying())
	for name, config := range map[string]Config{"mark": {}, "delete": {Delete: true}} {
		table := open(t, s, config)
		for _, f := range []Filter{
			{},
			{Topics: []string{"*"}},
			{Topics: []string{"a", "*"}, Before: [][]string{{"!*"}, {"a", "!*"}}},
		} {
			view := filtered(t, table, f)
			if !reflect.DeepEqual(view.description, table.description) || !reflect.DeepEqual(view.reads, table.reads) {
				t.Errorf("%s: %v changes statements", name, f)
			}
		}
		if again := filtered(t, filtered(t, table, Filter{Topics: []string{"a*"}}), Filter{}); !reflect.DeepEqual(again.reads,
			table.reads) {
			t.Errorf("%s: a view of a view is not of the table", name)
		}
	}
}

// Two destinations, and a third that takes the rest, divide the rows: each row is found by exactly one of them, in
// every way of reading.
func TestFilterDividesRows(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id integer primary key, seq bigint, key text, topic text, payload text,
		relayed_at timestamptz,
	failed_at timestamptz,
		inserted_at timestamptz not null default now() - interval '1 minute', available_at timestamptz)`)
	s.Exec(t, "create index on outbox_messages (seq) where relayed_at is null and failed_at is null")
	s.Exec(t, "create index on outbox_messages (failed_at) where failed_at is not null")
	table := open(t, s, Config{Shards: 4, Views: []View{{BlockFailed: true}}})
	empty := tail(t, table, Query{}) // a snapshot that has seen no row for certain, whatever else runs on the server
	s.Exec(t, `insert into outbox_messages (id, seq, key, topic, payload) select i, case when i % 7 > 0 then i end, case
		when i % 5 > 0 then
	'k' || i % 11 end,
		(array['order.created', 'order.internal.x', 'audit.x', '', null, 'order.%', 'x'])[1 + i % 13 % 7], 'p' from
		generate_series(1, 400) i`)
	s.Exec(t, "update outbox_messages set failed_at = now() - id * interval '1 second' where id % 4 = 0")
	s.Exec(t, "update outbox_messages set available_at = now() + interval '1 hour' where id % 4 = 1")
	patterns := [][]string{{"order.*", "!order.internal.*"}, {"*.x", "order.created"}, nil}
	filters := make([]Filter, len(patterns))
	for i := range filters {
		filters[i] = Filter{Topics: patterns[i], Before: patterns[:i]}
	}
	numbers := func(rows []Row) (found []int) {
		for _, row := range rows {
			id, err := strconv.Atoi(row.Message.ID)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, id)
		}
		return found
	}
	first := tail(t, table, Query{})
	var asks []Ask
	for _, row := range first.Rows[:50] {
		if !slices.ContainsFunc(asks, func(a Ask) bool { return a.Hash == row.Hash }) {
			asks = append(asks, Ask{Hash: row.Hash, Limit: 1000})
		}
	}
	middle := end(first.Rows[:100])
	for name, read := range map[string]func(*Table) []int{
		"pages":  func(table *Table) []int { return numbers(scan(t, table, Query{}, 7)) },
		"shards": func(table *Table) []int { return numbers(scan(t, table, Query{Shards: []int{0, 2}}, 7)) },
		"after":  func(table *Table) []int { return numbers(tail(t, table, Query{After: middle}).Rows) },
		"seen": func(table *Table) []int {
			return numbers(tail(t, table, Query{After: middle, Seen: &empty.Visible}).Rows)
		},
		"keys": func(table *Table) (found []int) {
			page, err := table.Keys(t.Context(), Query{Asks: asks, Most: anyNumber})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range page.Keys {
				found = append(found, numbers(k.Rows)...)
			}
			return found
		},
		"sweep": func(table *Table) (found []int) {
			page, err := table.Tail(t.Context(), Query{Sweep: true, Most: Most{Rows: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Rows {
				found = append(found, int(ordinal([]byte(r.Identity()))))
			}
			return found
		},
	} {
		all := read(table)
		if len(all) < 20 {
			t.Errorf("%s: the table has only %v", name, all)
		}
		var shared []int
		for _, f := range filters {
			found := read(filtered(t, table, f))
			if len(found) == 0 || len(found) == len(all) {
				t.Errorf("%s: %v finds %d rows of %d", name, f, len(found), len(all))
			}
			want := slices.DeleteFunc(slices.Clone(all), func(id int) bool {
				return !f.Takes(pgtest.Value[string](t, s, "select coalesce(topic, '') from outbox_messages where id = $1", id))
			})
			if !slices.Equal(found, want) {
				t.Errorf("%s: %v finds %v, want %v", name, f, found, want)
			}
			shared = append(shared, found...)
		}
		slices.Sort(shared)
		slices.Sort(all)
		if !slices.Equal(shared, all) {
			t.Errorf("%s: the destinations find %v of %v", name, shared, all)
		}
	}
	for _, shards := range [][]int{nil, {0, 1}} {
		failed := func(table *Table) (found []uint64) {
			for q := (Query{Shards: shards, Most: Most{Rows: 5}}); ; {
				page, err := table.Blocked(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Rows {
					found, q.After = append(found, r.Hash), r.Position
				}
				if !page.Full {
					return found
				}
			}
		}
		var shared []uint64
		for _, f := range filters {
			shared = append(shared, failed(filtered(t, table, f))...)
		}
		all := failed(table)
		slices.Sort(all)
		slices.Sort(shared)
		if len(all) == 0 || !slices.Equal(shared, all) {
			t.Errorf("failed: the destinations find %v of %v", shared, all)
		}
	}
	for i, f := range filters {
		view := filtered(t, table, f)
		counts, err := view.Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		number := func(state string) int64 {
			var n int64
			for topic, rows := range pgtest.Value[map[string]int64](t, s, `select jsonb_object_agg(topic, n) from (
				select coalesce(topic, '') as topic, count(*) as n from outbox_messages where `+state+` group by 1) topics`) {
				if f.Takes(topic) {
					n += rows
				}
			}
			return n
		}
		pending, scheduled, failed := number("failed_at is null and available_at is null"),
			number("available_at is not null"),
			number("failed_at is not null")
		if counts.Pending == nil || *counts.Pending != pending || counts.Scheduled == nil || *counts.Scheduled != scheduled ||
			counts.Failed == nil || *counts.Failed != failed {
			t.Errorf("%v: %d pending, %d scheduled and %d failed, counted as %+v", f, pending, scheduled, failed, counts)
		}
		if counts.Oldest == nil || *counts.Oldest < 50 {
			t.Errorf("%v: oldest %v", f, counts.Oldest)
		}
		s.Exec(t, "update outbox_messages set relayed_at = now() where id = any ($1)",
			numbers(tail(t, view, Query{}).Rows))
		if counts, err = view.Count(t.Context()); err != nil || *counts.Pending != 0 || *counts.Oldest != 0 {
			t.Errorf("%v: after its rows were relayed: %+v, %v", f, counts, err)
		}
		if page := tail(t, view, Query{}); len(page.Rows) > 0 {
			t.Errorf("%v: after its rows were relayed %s", f, idsOf(page.Rows))
		}
		for _, other := range filters[i+1:] {
			if len(tail(t, filtered(t, table, other), Query{}).Rows) == 0 {
				t.Errorf("%v is without rows after those of %v were relayed", other, f)
			}
		}
	}
}

// Measuring the rows of one destination costs the same however many rows another one has. Values that are then unknown
// are not reported.
func TestCountsOfAFilterBesideABacklog(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id integer primary key, topic text, payload text, relayed_at timestamptz,
		failed_at timestamptz,
		inserted_at timestamptz not null default now() - interval '1 minute')`)
	s.Exec(t, "create index on outbox_messages (inserted_at, id) where relayed_at is null and failed_at is null")
	s.Exec(t, "insert into outbox_messages (id, topic) select i, 'other' from generate_series(1, $1::integer) i",
		dividedCap)
	table := open(t, s, Config{})
	mine, other := filtered(t, table, Filter{Topics: []string{"mine"}}),
		filtered(t, table, Filter{Topics: []string{"!mine"}})
	check := func(what string, table *Table, pending, oldest bool, n int64) {
		t.Helper()
		counts, err := table.Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if (counts.Pending != nil) != pending || pending && *counts.Pending != n || (counts.Oldest != nil) != oldest {
			t.Errorf("%s: %+v", what, counts)
		}
	}
	check("others alone", mine, false, false, 0)
	check("the others", other, true, true, CountCap)
	s.Exec(t, "insert into outbox_messages (id, topic, inserted_at) values (0, 'mine', now() - interval '1 hour')")
	check("one before the others", mine, false, true, 0)
	s.Exec(t, "update outbox_messages set relayed_at = now() where id in (1, 2)")
	check("all are looked at", mine, true, true, 1)
	s.Exec(t, "update outbox_messages set relayed_at = now() where id = 0")
	check("none", mine, true, true, 0)
}

// Topics may be of any type. The filter takes the same rows as a comparison with the topic that is read.
func TestFilterOfColumnTypes(t *testing.T) {
	t.Parallel()
	for name, column := range map[string]string{
		"text": "text", "varchar": "varchar(255)", "bpchar": "char(20)", "name": "name", "enum": "topics",
		"domain":    "topic_text",
		"collation": "text collate same_letters", "varchar with a collation": "varchar(255) collate same_letters",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create type topics as enum ('order.a', 'ORDER.A', 'order.b', 'a_b', 'axb', 'a%')")
			s.Exec(t, "create domain topic_text as varchar(100) collate \"POSIX\"")
			s.Exec(t, "create collation same_letters (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
			s.Exec(t, "create table outbox_messages (id integer primary key, topic "+column+
				", payload text, relayed_at timestamptz)")
			s.Exec(t, "insert into outbox_messages select n, topic::topics::text::"+strings.Fields(column)[0]+
				`, '' from unnest(enum_range(null::topics)) with ordinality t (topic, n)`)
			s.Exec(t, "insert into outbox_messages values (7, null, '')")
			table := open(t, s, Config{})
			for patterns, want := range map[string]string{
				"order.a": "1", "order.*": "13", "ORDER.*": "2", "*.a": "1", "a_*": "4", "a_b": "4", "a%": "6", "!order.*": "24567",
				"a*,!a%":   "45",
				"!*.*,!a*": "7", "order.* ": "",
			} {
				f := Filter{Topics: strings.Split(patterns, ",")}
				if got := idsOf(tail(t, filtered(t, table, f), Query{}).Rows); got != want {
					t.Errorf("%s: %q, want %q", patterns, got, want)
				}
				var taken string
				for _, row := range tail(t, table, Query{}).Rows {
					if f.Takes(row.Message.Topic) {
						taken += row.Message.ID
					}
				}
				if taken != want {
					t.Errorf("%s in Go: %q, want %q", patterns, taken, want)
				}
			}
		})
	}
}
