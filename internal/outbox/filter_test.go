package outbox

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
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

// statements returns the texts of a table's statements by their names.
func statements(t *Table) map[string]string {
	found := map[string]string{}
	var gather func(prefix string, v reflect.Value)
	gather = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name := prefix + v.Type().Field(i).Name
			switch field := v.Field(i); {
			case field.Type() == reflect.TypeFor[orderedReads]():
				gather(name+".", field)
			case field.Kind() == reflect.String:
				found[name] = field.String()
			}
		}
	}
	gather("", reflect.ValueOf(t.queries))
	return found
}

// A filter that takes everything changes no statement, and so neither plans nor costs. Any other filter changes the statements
// that find rows, but not those that are given ids.
func TestStatementsOfAFilter(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages add available_at timestamptz, alter seq drop identity, alter seq drop not null")
	s.Exec(t, strings.ReplaceAll(sql.Schema(sql.Table{Name: "ranked"})+delaying(), "outbox_messages", "ranked")+
		"alter table ranked add priority int, alter seq drop identity, alter seq drop not null")
	strict := sql.Table{Name: "strict"} // its order is not null
	s.Exec(t, sql.Schema(strict)+"; alter table strict add available_at timestamptz")
	ranked := sql.Table{Name: "ranked"}
	for name, config := range map[string]Config{"mark": {}, "delete": {Delete: true}, "ranked": {Table: ranked}, "strict": {Table: strict}} {
		table := open(t, s, config)
		base := statements(table)
		for statement, text := range base {
			absent := false // on this table
			switch {
			case statement == "settleHere":
				absent = name != "delete"
			case statement == "readKeysAfter", strings.HasSuffix(statement, ".keysOrNull"):
				absent = name != "strict" || strings.HasPrefix(statement, "unranked")
			case strings.HasPrefix(statement, "unranked"), strings.HasSuffix(statement, ".due"), statement == "nextDue":
				absent = name != "ranked"
			case strings.HasSuffix(statement, ".nulls"):
				absent = name == "strict"
			}
			if text == "" && !absent || strings.Contains(text, "collate") {
				t.Errorf("%s, %s: %q", name, statement, text)
			}
		}
		for _, f := range []Filter{{}, {Topics: []string{"*"}}, {Topics: []string{"a", "*"}, Before: [][]string{{"!*"}, {"a", "!*"}}}} {
			if view := statements(filtered(t, table, f)); !maps.Equal(view, base) {
				t.Errorf("%s: %v changes statements:\n%v\n%v", name, f, view, base)
			}
		}
		var changed []string
		view := filtered(t, table, Filter{Topics: []string{"a*"}})
		for statement, text := range statements(view) {
			if text != base[statement] {
				changed = append(changed, statement)
			}
		}
		slices.Sort(changed)
		want := "all.after all.first all.glance all.nulls all.recent countFailed countPending countScheduled drainEnd drainLeft failedAll " +
			"failedSome horizon oldestPending " +
			"readIDs readKeys readWhole sampleTopics some.after some.first some.glance some.nulls some.recent"
		switch name {
		case "strict":
			want = strings.ReplaceAll(strings.ReplaceAll(want, "all.nulls ", ""), "some.nulls ", "")
			want = strings.Replace(want, "readKeys ", "readKeys readKeysAfter ", 1)
			want = strings.NewReplacer("all.recent", "all.keysOrNull all.recent", "some.recent", "some.keysOrNull some.recent").Replace(want)
		case "ranked":
			want = "all.after all.due all.first all.glance all.nulls all.recent countFailed countPending countScheduled drainEnd drainLeft " +
				"failedAll failedSome horizon oldestPending " +
				"readIDs readKeys readWhole sampleTopics some.after some.due some.first some.glance some.nulls some.recent " +
				"unranked.after unranked.due unranked.first unranked.glance unranked.nulls unranked.recent " +
				"unrankedSome.after unrankedSome.due unrankedSome.first unrankedSome.glance unrankedSome.nulls unrankedSome.recent"
		}
		if got := strings.Join(changed, " "); got != want {
			t.Errorf("%s: a filter changes %s", name, got)
		}
		if again := statements(filtered(t, view, Filter{})); !maps.Equal(again, base) {
			t.Errorf("%s: a view of a view is not of the table", name)
		}
	}
}

// Two destinations, and a third that takes the rest, divide the rows: each row is found by exactly one of them, in every way of
// reading.
func TestFilterDividesRows(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id integer primary key, seq bigint, key text, topic text, payload text, relayed_at timestamptz,
	failed_at timestamptz,
		inserted_at timestamptz not null default now() - interval '1 minute', available_at timestamptz)`)
	s.Exec(t, "create index on outbox_messages (seq) where relayed_at is null and failed_at is null")
	s.Exec(t, "create index on outbox_messages (failed_at) where failed_at is not null")
	s.Exec(t, `insert into outbox_messages (id, seq, key, topic, payload) select i, case when i % 7 > 0 then i end, case when i % 5 > 0 then
	'k' || i % 11 end,
		(array['order.created', 'order.internal.x', 'audit.x', '', null, 'order.%', 'x'])[1 + i % 13 % 7], 'p' from generate_series(1, 400) i`)
	s.Exec(t, "update outbox_messages set failed_at = now() - id * interval '1 second' where id % 4 = 0")
	s.Exec(t, "update outbox_messages set available_at = now() + interval '1 hour' where id % 4 = 1")
	table := open(t, s, Config{Shards: 4, BlockFailed: true})
	patterns := [][]string{{"order.*", "!order.internal.*"}, {"*.x", "order.created"}, nil}
	filters := make([]Filter, len(patterns))
	for i := range filters {
		filters[i] = Filter{Topics: patterns[i], Before: patterns[:i]}
	}
	pages := func(t *testing.T, table *Table, q Query) (found []int) {
		t.Helper()
		for {
			page := read(t, table, q)
			for _, row := range page.Rows {
				var id int
				if _, err := fmt.Sscan(row.Message.ID, &id); err != nil {
					t.Fatal(err)
				}
				found = append(found, id)
			}
			if !page.More {
				return found
			}
			q.After = page.End
		}
	}
	every := func(first, last int) (ids []string) {
		for id := first; id <= last; id++ {
			ids = append(ids, string([]byte{0, 0, byte(id >> 8), byte(id)}))
		}
		return ids
	}
	recent, from := int64(50), int64(100)
	for name, q := range map[string]Query{
		"first and after": {Limit: 7}, "all at once": {Limit: 1000}, "shards": {Limit: 7, Shards: []int{0, 2}},
		"recent": {Recent: &recent}, "recent in shards": {Recent: &recent, Shards: []int{1, 3}},
		"ids": {IDs: every(30, 300)}, "keys": {Keys: []string{"k1", "k2", "k9"}}, "keys from": {Keys: []string{"k1", "k2", "k9"}, From: &from},
	} {
		all := pages(t, table, q)
		if len(all) < 20 {
			t.Errorf("%s: the table has only %v", name, all)
		}
		var shared []int
		for _, f := range filters {
			found := pages(t, filtered(t, table, f), q)
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
		failed := func(table *Table) (found []int64) {
			for q := (Query{Limit: 5, Shards: shards}); ; {
				page, err := table.Failed(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range page.Rows {
					found = append(found, row.Ordinal)
				}
				if q.After = page.End; !page.More {
					return found
				}
			}
		}
		var shared []int64
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
		pending, scheduled, failed := number("failed_at is null and available_at is null"), number("available_at is not null"),
			number("failed_at is not null")
		if counts.Pending == nil || *counts.Pending != pending || counts.Scheduled == nil || *counts.Scheduled != scheduled ||
			counts.Failed == nil || *counts.Failed != failed {
			t.Errorf("%v: %d pending, %d scheduled and %d failed, counted as %+v", f, pending, scheduled, failed, counts)
		}
		if counts.Oldest == nil || *counts.Oldest < 50 {
			t.Errorf("%v: oldest %v", f, counts.Oldest)
		}
		s.Exec(t, "update outbox_messages set relayed_at = now() where id = any ($1)", pages(t, view, Query{}))
		if counts, err = view.Count(t.Context()); err != nil || *counts.Pending != 0 || *counts.Oldest != 0 {
			t.Errorf("%v: after its rows were relayed: %+v, %v", f, counts, err)
		}
		if page := read(t, view, Query{Horizon: true}); len(page.Rows) > 0 || page.Horizon.Highest != nil {
			t.Errorf("%v: after its rows were relayed %+v", f, page)
		}
		for _, other := range filters[i+1:] {
			if page := read(t, filtered(t, table, other), Query{Horizon: true}); page.Horizon.Highest == nil {
				t.Errorf("%v is without rows after those of %v were relayed", other, f)
			}
		}
	}
}

// Measuring the rows of one destination costs the same however many rows another one has. Values that are then unknown are not
// reported.
func TestCountsOfAFilterBesideABacklog(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id integer primary key, topic text, payload text, relayed_at timestamptz, failed_at timestamptz,
		inserted_at timestamptz not null default now() - interval '1 minute')`)
	s.Exec(t, "create index on outbox_messages (inserted_at, id) where relayed_at is null and failed_at is null")
	s.Exec(t, "insert into outbox_messages (id, topic) select i, 'other' from generate_series(1, $1::integer) i", lookedAt)
	table := open(t, s, Config{})
	mine, other := filtered(t, table, Filter{Topics: []string{"mine"}}), filtered(t, table, Filter{Topics: []string{"!mine"}})
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

// The horizon covers the filter's rows, and a read within it ends there.
func TestHorizonOfAFilter(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id integer primary key, topic text not null, payload text, relayed_at timestamptz)")
	s.Exec(t, "insert into outbox_messages select i, case when i <= 10 then 'a' else 'b' end, '' from generate_series(1, 20) i")
	table := open(t, s, Config{})
	for topic, want := range map[string]int64{"a": 10, "b": 20} {
		view := filtered(t, table, Filter{Topics: []string{topic}})
		first := read(t, view, Query{Limit: 4, Horizon: true})
		if first.Horizon.Highest == nil || *first.Horizon.Highest != want || len(first.Rows) != 4 {
			t.Fatalf("%s: horizon %v, %d rows", topic, first.Horizon, len(first.Rows))
		}
		s.Exec(t, "insert into outbox_messages values ($1, $2, '')", 100+want, topic)
		if rest := read(t, view, Query{After: first.End, Within: first.Horizon}); len(rest.Rows) != 6 || rest.More {
			t.Errorf("%s: %d more rows within the horizon, more %v", topic, len(rest.Rows), rest.More)
		}
	}
}

// Topics may be of any type. The filter takes the same rows as a comparison with the topic that is read.
func TestFilterOfColumnTypes(t *testing.T) {
	t.Parallel()
	for name, column := range map[string]string{
		"text": "text", "varchar": "varchar(255)", "bpchar": "char(20)", "name": "name", "enum": "topics", "domain": "topic_text",
		"collation": "text collate same_letters", "varchar with a collation": "varchar(255) collate same_letters",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create type topics as enum ('order.a', 'ORDER.A', 'order.b', 'a_b', 'axb', 'a%')")
			s.Exec(t, "create domain topic_text as varchar(100) collate \"POSIX\"")
			s.Exec(t, "create collation same_letters (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
			s.Exec(t, "create table outbox_messages (id integer primary key, topic "+column+", payload text, relayed_at timestamptz)")
			s.Exec(t, "insert into outbox_messages select n, topic::topics::text::"+strings.Fields(column)[0]+
				`, '' from unnest(enum_range(null::topics)) with ordinality t (topic, n)`)
			s.Exec(t, "insert into outbox_messages values (7, null, '')")
			table := open(t, s, Config{})
			for patterns, want := range map[string]string{
				"order.a": "1", "order.*": "13", "ORDER.*": "2", "*.a": "1", "a_*": "4", "a_b": "4", "a%": "6", "!order.*": "24567", "a*,!a%": "45",
				"!*.*,!a*": "7", "order.* ": "",
			} {
				f := Filter{Topics: strings.Split(patterns, ",")}
				if got := ids(read(t, filtered(t, table, f), Query{})); got != want {
					t.Errorf("%s: %q, want %q", patterns, got, want)
				}
				var taken string
				for _, row := range read(t, table, Query{}).Rows {
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
