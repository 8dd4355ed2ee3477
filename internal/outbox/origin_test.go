package outbox

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

var (
	deadColumns = map[string]string{
		"relayed_at": "dead_relayed_at", "attempt": "dead_attempt", "failed_at": "dead_failed_at",
		"last_error": "dead_last_error", "updated_at": "dead_updated_at",
	}
	noticeColumns = map[string]string{"relayed_at": "notice_relayed_at"}
)

const originTable = `alter table outbox_messages add dead_relayed_at timestamptz, add dead_attempt integer not null
	default 1, add
dead_failed_at timestamptz,
	add dead_last_error text, add dead_updated_at timestamptz, add notice_relayed_at timestamptz;
	create index on outbox_messages (failed_at, id) where dead_relayed_at is null and dead_failed_at is null and failed_at
	is not null;
	create index on outbox_messages (relayed_at, id) where notice_relayed_at is null and relayed_at is not null and
	failed_at is null`

// originTables are tables whose rows are distinguished in different ways.
var originTables = map[string]string{
	"recommended": sql.Schema(messages),
	"no unique id": `create table outbox_messages (id integer not null, seq integer generated always as identity, topic
		text, key text,
	payload text, headers jsonb,
		attempt integer default 1, relayed_at timestamp, failed_at timestamp, last_error text, updated_at timestamp,
		inserted_at timestamp
		default now())`,
	"partitioned": `create table outbox_messages (id uuid default gen_random_uuid(), day date default '2026-01-01', topic
		text, key text,
	payload text, headers jsonb,
		attempt smallint, relayed_at timestamptz, failed_at timestamptz, last_error text, updated_at timestamptz, primary key
		(id, day))
		partition by range (day);
		create table outbox_one partition of outbox_messages default`,
}

func headersOf(m *publisher.Message) map[string]string {
	headers := map[string]string{}
	for _, h := range m.Headers {
		headers[h.Name] = h.Value
	}
	return headers
}

// Dead letters come in the order of the failures, with the facts about them. What becomes of a dead letter is written
// for the failure that was read: a row that is retried and fails again is another dead letter.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	for name, schema := range originTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, schema)
			s.Exec(t, originTable)
			orders := View{Name: "orders"}
			dead := View{Name: "dead", Columns: deadColumns, FailedOf: &orders}
			table := open(t, s, Config{Views: []View{orders, dead}})
			origin, letters := viewOf(t, table, orders), viewOf(t, table, dead)
			column, id := "", ""
			if name == "no unique id" {
				column, id = "id, ", "i, "
			}
			s.Exec(t, "insert into outbox_messages ("+column+"topic, key, payload, headers) select "+id+`'t' || i, 'k', '{}',
				case i when 2 then '{"a": "1", "Outbox-Error": "mine"}' when 3 then '[7]' else '{}' end::jsonb from
				generate_series(1, 4) i`)
			topics := func(page Page) (topics string) {
				for _, r := range page.Rows {
					topics += r.Message.Topic
				}
				return topics
			}
			if page := tail(t, letters, Query{}); len(page.Rows) != 0 {
				t.Fatalf("%s before anything has failed", topics(page))
			}
			fail := func(topic, reason string) {
				t.Helper()
				for _, r := range rowsOf(tail(t, origin, Query{})) {
					if r.Message.Topic != topic {
						continue
					}
					written, _, err := refuse(t.Context(), origin,
						[]Refusal{failure(r.Identity(), r.Attempt, reason)})
					if err != nil || len(written) != 1 {
						t.Fatal(written, err)
					}
				}
			}
			for _, topic := range []string{"t3", "t1", "t2"} {
				fail(topic, "no "+topic)
			}
			page := Page{Rows: scan(t, letters, Query{}, 2)}
			if topics(page) != "t3t1t2" {
				t.Fatalf("dead letters: %s", topics(page))
			}
			third := page.Rows[2]
			failedAt := pgtest.Value[time.Time](t, s, "select failed_at from outbox_messages where topic = 't2'")
			want := map[string]string{
				"a": "1", HeaderDestination: "orders", HeaderTopic: "t2", HeaderAttempt: "2", HeaderError: "no t2",
				HeaderFailedAt: failedAt.UTC().Format("2006-01-02T15:04:05.000000Z"),
			}
			if got := headersOf(&third.Message); !maps.Equal(got, want) ||
				!slices.Equal(third.LeftOut, []string{"Outbox-Error"}) ||
				third.Invalid != nil {
				t.Errorf("headers %v, left out %v, %v\nwant %v", got, third.LeftOut, third.Invalid, want)
			}
			if first := page.Rows[0]; first.Invalid != nil || !slices.Equal(first.LeftOut, []string{"all"}) ||
				len(first.Message.Headers) != 5 {
				t.Errorf("headers that cannot be read: %v, %v, %v", first.Invalid, first.LeftOut, first.Message.Headers)
			}
			if keyed := third.Message.Key != nil; keyed || !third.Due.Equal(failedAt) || third.Attempt != 1 {
				t.Errorf("key %v, due %v, attempt %d", keyed, third.Due, third.Attempt)
			}
			if counts, err := letters.Count(t.Context()); err != nil || *counts.Pending != 3 || *counts.Oldest < 0 ||
				*counts.Oldest > 3600 {
				t.Errorf("counts %+v, %v", counts, err)
			}
			// It is refused; then t2 is retried at its origin and fails again: neither a mark nor a refusal for the first
			// failure is written.
			if written, _, err := refuse(t.Context(), letters, []Refusal{
				failure(third.Identity(), 1, "not here"),
				refusal(page.Rows[1].Identity(), 1, "not yet"),
			}); err != nil || len(written) != 2 {
				t.Fatal(written, err)
			}
			if again := tail(t, letters, Query{}); topics(again) != "t3t1" || again.Rows[1].Attempt != 2 ||
				!again.Rows[1].Retried {
				t.Errorf("after refusals: %s", topics(again))
			}
			s.Exec(t, "update outbox_messages set failed_at = null, last_error = null, attempt = 1 where topic in ('t1', "+
				"'t2', 't3')")
			for _, topic := range []string{"t2", "t1", "t3"} {
				fail(topic, "again")
			}
			for i := range page.Rows {
				if err := settle(t.Context(), letters, []*Row{&page.Rows[i]}); err != nil {
					t.Error(err)
				}
				if locked, err := settleFree(t.Context(), letters, []*Row{&page.Rows[i]}); err != nil || locked != nil {
					t.Error(locked, err)
				}
			}
			written, _, err := refuse(t.Context(), letters, []Refusal{failure(page.Rows[1].Identity(), 1, "late")})
			if err != nil || len(written) != 0 {
				t.Error(written, err)
			}
			page = tail(t, letters, Query{})
			if topics(page) != "t2t1t3" || page.Rows[0].Attempt != 1 || page.Rows[0].Retried ||
				headersOf(&page.Rows[0].Message)[HeaderError] != "again" {
				t.Errorf("failed again: %s, %+v", topics(page), page.Rows)
			}
			if err := settle(t.Context(), letters, rowsOf(page)); err != nil {
				t.Fatal(err)
			}
			for _, rest := range [][]Row{tail(t, letters, Query{}).Rows, byID(t, letters, page.Rows[0].ID())} {
				if len(rest) != 0 {
					t.Errorf("left after the marks: %s", idsOf(rest))
				}
			}
			if rest := tail(t, origin, Query{}); topics(rest) != "t4" {
				t.Errorf("left at the origin: %s", topics(rest))
			}
		})
	}
}

// Destinations that divide the rows share the statement that writes failures. It empties the columns of the dead
// letters of each.
func TestDeadLettersOfDividedRows(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages))
	s.Exec(t, originTable)
	orders := View{Name: "orders", Filter: Filter{Topics: []string{"a*"}}}
	rest := View{Name: "rest", Filter: Filter{Before: [][]string{{"a*"}}}}
	table := open(t, s, Config{Views: []View{orders, rest, {Name: "dead", Columns: deadColumns, FailedOf: &rest}}})
	s.Exec(t, `insert into outbox_messages (topic, payload, dead_relayed_at, dead_attempt) values ('b', '{}', now(), 3)`)
	var refusals []Refusal
	for _, r := range rowsOf(tail(t, viewOf(t, table, rest), Query{})) {
		refusals = append(refusals, failure(r.Identity(), r.Attempt, "no"))
	}
	written, _, err := refuse(t.Context(), viewOf(t, table, orders), refusals)
	if err != nil || len(written) != 1 {
		t.Fatal(written, err)
	}
	const empty = "select count(*) from outbox_messages where dead_relayed_at is null and dead_attempt = 1"
	if pgtest.Value[int64](t, s, empty) != 1 {
		t.Error("the dead letter of an earlier failure counts as that of this one")
	}
	if unsent := viewOf(t, table, orders).Unsent(); len(unsent) != 4 {
		t.Errorf("a retry without a destination empties %v", unsent)
	}
}

// Rows that one destination has relayed go to another in that order; rows that have failed or were discarded there do
// not.
func TestRelayedElsewhere(t *testing.T) {
	t.Parallel()
	for name, schema := range originTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, schema)
			s.Exec(t, originTable)
			orders := View{Name: "orders", Filter: Filter{Topics: []string{"a*"}}}
			rest := View{Name: "rest", Filter: Filter{Before: [][]string{{"a*"}}}}
			notice := View{Name: "notice", Columns: noticeColumns, RelayedOf: &orders}
			table := open(t, s, Config{Views: []View{orders, rest, notice}})
			if name == "no unique id" {
				s.Exec(t, "insert into outbox_messages (id, topic, payload) select i, chr(96 + i % 2 + 1) || i, '{}' from "+
					"generate_series(1, 12) i")
			} else {
				s.Exec(t, "insert into outbox_messages (topic, payload) select chr(96 + i % 2 + 1) || i, '{}' from "+
					"generate_series(1, 12) i")
			}
			notices := viewOf(t, table, notice)
			relayAll := func(v View) {
				t.Helper()
				view := viewOf(t, table, v)
				for _, r := range slices.Backward(rowsOf(tail(t, view, Query{}))) {
					if err := settle(t.Context(), view, []*Row{r}); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.Exec(t, "update outbox_messages set failed_at = now(), relayed_at = now() where topic = 'a12'")
			s.Exec(t, "update outbox_messages set failed_at = now() where topic = 'a10'")
			relayAll(rest)
			relayAll(orders)
			page := Page{Rows: scan(t, notices, Query{}, 3)}
			got := ""
			for _, r := range page.Rows {
				got += r.Message.Topic + " "
			}
			order := map[bool]string{true: "a8 a6 a4 a2 ", false: got}[name != "partitioned"] // its ids are random
			if got != order || len(page.Rows) != 4 {
				t.Errorf("notices of %s, want %s", got, order)
			}
			if err := settle(t.Context(), notices, rowsOf(page)); err != nil {
				t.Fatal(err)
			}
			if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages where notice_relayed_at is not null and "+
				"relayed_at is not null"); n != 4 {
				t.Errorf("%d are marked", n)
			}
			if again := tail(t, notices, Query{}); len(again.Rows) != 0 {
				t.Errorf("%d are left", len(again.Rows))
			}
		})
	}
}

// Two destinations may share columns that are not the table's. What follows one of them takes none of the other one's
// rows.
func TestOriginsThatShareColumns(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages))
	s.Exec(t, originTable+`; alter table outbox_messages add own_relayed_at timestamptz, add own_failed_at timestamptz`)
	own := map[string]string{"relayed_at": "own_relayed_at", "failed_at": "own_failed_at"}
	one := View{Name: "one", Columns: own, Filter: Filter{Topics: []string{"a*"}}}
	two := View{Name: "two", Columns: own, Filter: Filter{Before: [][]string{{"a*"}}}}
	dead := View{Name: "dead", Columns: deadColumns, FailedOf: &two}
	notice := View{Name: "notice", Columns: noticeColumns, RelayedOf: &one}
	table := open(t, s, Config{Views: []View{{Name: "orders"}, one, two, dead, notice}})
	s.Exec(t, `insert into outbox_messages (topic, payload, own_relayed_at, own_failed_at) values ('a failed', '{}', null,
		now()),
		('b failed', '{}', null, now()), ('a relayed', '{}', now(), null), ('b relayed', '{}', now(), null)`)
	for topic, v := range map[string]View{"b failed": dead, "a relayed": notice} {
		if page := tail(t, viewOf(t, table, v), Query{}); len(page.Rows) != 1 || page.Rows[0].Message.Topic != topic {
			t.Errorf("%s takes %d rows, not only %q", v.Name, len(page.Rows), topic)
		}
	}
}

// An index of what the origin has relayed or failed holds rows that are done at the destination, so it does not replace
// an index of the destination's pending rows.
func TestIndexOfTheOrigin(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages)) // with an index of failed rows
	s.Exec(t, originTable+`; create index on outbox_messages (relayed_at) where relayed_at is not null`)
	orders := View{Name: "orders"}
	dead := View{Name: "dead", Columns: deadColumns, FailedOf: &orders}
	notice := View{Name: "notice", Columns: noticeColumns, RelayedOf: &orders}
	indexed := func(want bool) {
		t.Helper()
		table := open(t, s, Config{Views: []View{orders, dead, notice}})
		for _, v := range []View{dead, notice} {
			if viewOf(t, table, v).PendingIndexed() != want {
				t.Errorf("%s: an index of pending rows: %v, want %v", v.Name, !want, want)
			}
		}
		_, found, err := Examine(t.Context(), s.Pool, Config{Table: messages, Views: []View{orders, dead, notice}})
		warned := 0
		for _, f := range found {
			if f.Severity == finding.Warning && strings.Contains(f.Found, "no index of pending rows in their order") {
				warned++
			}
		}
		if err != nil || (warned == 2) == want {
			t.Errorf("%d warnings, %v", warned, err)
		}
	}
	indexed(true)
	s.Exec(t, `do $$ declare i text; begin
		for i in select indexrelid::regclass from pg_index where indrelid = 'outbox_messages'::regclass and
		pg_get_expr(indpred, indrelid) ~
			'(dead|notice)_relayed_at IS NULL' loop execute 'drop index ' || i; end loop; end $$`)
	indexed(false)
}

// A row of a partitioned table keeps its identity after another destination has marked it, if a unique index identifies
// the row.
func TestRowsOfPartitionsThatOthersMark(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, originTables["partitioned"])
	s.Exec(t, originTable)
	a, b := View{Name: "a"}, View{Name: "b", Columns: noticeColumns}
	table := open(t, s, Config{Views: []View{a, b}})
	first, second := viewOf(t, table, a), viewOf(t, table, b)
	s.Exec(t, "insert into outbox_messages (id, day, topic, payload) select gen_random_uuid(), '2026-01-01'::date + i, "+
		"'t', '{}' from "+
		"generate_series(1, 10) i")
	s.Exec(t, "insert into outbox_messages (id, day, topic, payload) select id, '2027-01-01', 'twin', '{}' from "+
		"outbox_messages limit 1")
	mine, theirs := rowsOf(tail(t, second, Query{})), rowsOf(tail(t, first, Query{}))
	if len(mine) != 11 || len(theirs) != 11 {
		t.Fatal(len(mine), len(theirs))
	}
	if err := settle(t.Context(), first, theirs); err != nil {
		t.Fatal(err)
	}
	mine = slices.DeleteFunc(mine, func(r *Row) bool { return r.Message.Topic == "twin" })
	if err := settle(t.Context(), second, mine); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[string](t, s,
		"select string_agg(topic, '') from outbox_messages where notice_relayed_at is null"); got != "twin" {
		t.Errorf("not marked: %s", got)
	}
}
