package outbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// auditColumns are all the columns that a destination can have for itself.
var auditColumns = map[string]string{
	"relayed_at": "audit_relayed_at", "attempt": "audit_attempt", "failed_at": "audit_failed_at",
	"last_error": "audit_last_error", "updated_at": "audit_updated_at",
}

const auditTable = `alter table outbox_messages add audit_relayed_at timestamptz, add audit_attempt integer not null
	default 1,
	add audit_failed_at timestamptz, add audit_last_error varchar(20), add audit_updated_at timestamptz not null default
	now()`

func viewOf(t *testing.T, table *Table, v View) *Table {
	t.Helper()
	view, err := table.For(v)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func rowsOf(page Page) (rows []*Row) {
	for i := range page.Rows {
		rows = append(rows, &page.Rows[i])
	}
	return rows
}

// What becomes of a row at a destination with columns of its own is written there, and changes nothing for another
// destination, with all of the columns and with only one.
func TestColumnsOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, columns := range map[string]map[string]string{
		"all": auditColumns,
		"one": {"relayed_at": "audit_relayed_at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, sql.Schema(messages))
			s.Exec(t, auditTable)
			s.Exec(t, "create index on outbox_messages (audit_failed_at) where audit_failed_at is not null")
			s.Exec(t, `insert into outbox_messages (topic, key, payload, attempt, audit_attempt)
				select case when i % 2 = 0 then 'order.a' else 'debug' end, 'k', '{}', 2, 3 from generate_series(1, 6) i`)
			orders := View{Name: "orders"}
			audit := View{Name: "audit", Columns: columns, Filter: Filter{Topics: []string{"order.*"}}}
			table := open(t, s, Config{Views: []View{orders, audit}})
			first, second := viewOf(t, table, orders), viewOf(t, table, audit)
			all, mine := tail(t, first, Query{}), tail(t, second, Query{})
			if len(all.Rows) != 6 || len(mine.Rows) != 3 {
				t.Fatalf("%d rows for one, %d for the other", len(all.Rows), len(mine.Rows))
			}
			own := len(columns) > 1
			if second.KeepsFailures() != own || second.KeepsAttempts() != own || !first.KeepsFailures() {
				t.Errorf("keeps failures %v, attempts %v", second.KeepsFailures(), second.KeepsAttempts())
			}
			if want := map[bool]int64{true: 3, false: 1}[own]; mine.Rows[0].Attempt != want || all.Rows[0].Attempt != 2 {
				t.Errorf("attempts %d and %d", mine.Rows[0].Attempt, all.Rows[0].Attempt)
			}
			state := func() string {
				return pgtest.Value[string](t, s, `select string_agg(concat_ws(' ', seq, attempt, last_error, failed_at is not
					null, relayed_at is not
				null,
					audit_attempt, audit_last_error, audit_failed_at is not null, audit_relayed_at is not null), '; ' order by seq)
					from outbox_messages
					where topic = 'order.a'`)
			}
			rows := rowsOf(mine)
			refused := failure(rows[1].Identity(), rows[1].Attempt, "no, and this text is too long")
			if written, _, err := refuse(t.Context(), second, []Refusal{refused}); err != nil || len(written) != 1 {
				t.Fatal(written, err)
			}
			if err := settle(t.Context(), second, rows[:1]); err != nil {
				t.Fatal(err)
			}
			if locked, err := settleFree(t.Context(), second, rows[2:]); err != nil || locked != nil {
				t.Fatal(locked, err)
			}
			want := "2 2 f f 3 f t; 4 2 f f 4 no, and this text is t f; 6 2 f f 3 f t"
			if !own {
				want = "2 2 f f 3 f t; 4 2 f f 3 f f; 6 2 f f 3 f t"
			}
			if got := state(); got != want {
				t.Errorf("the table holds %s\nwant %s", got, want)
			}
			if rest := tail(t, second, Query{}); len(rest.Rows) != map[bool]int{true: 0, false: 1}[own] {
				t.Errorf("%d rows are left", len(rest.Rows))
			}
			if again := tail(t, first, Query{}); len(again.Rows) != 6 || again.Rows[1].Retried {
				t.Errorf("the other has %d rows", len(again.Rows))
			}
			if err := settle(t.Context(), first, rowsOf(all)); err != nil { // rows have moved since they were read
				t.Fatal(err)
			}
			if got := tail(t, first, Query{}); len(got.Rows) != 0 {
				t.Errorf("%d rows are left to the other", len(got.Rows))
			}
			if counts, err := second.Count(t.Context()); err != nil || counts.Failed == nil || (*counts.Failed == 1) != own ||
				counts.Pending != nil {
				t.Errorf("counts %+v, %v", counts, err)
			}
			if counts, err := first.Count(t.Context()); err != nil || *counts.Failed != 0 || *counts.Pending != 0 {
				t.Errorf("the other's counts %+v, %v", counts, err)
			}
			if own { // a row that is discarded and kept no longer counts as failed
				s.Exec(t, "update outbox_messages set audit_relayed_at = now() where audit_failed_at is not null")
				if counts, err := second.Count(t.Context()); err != nil || *counts.Failed != 0 {
					t.Errorf("counts %+v, %v", counts, err)
				}
			}
		})
	}
}

// If a destination's columns are missing, its error names them, the setting and the statements to run, and the other
// destinations continue. The destination runs once the columns exist.
func TestColumnsThatAreMissing(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages))
	views := []View{{Name: "default"}, {Name: "to-audit", Columns: auditColumns}}
	config := Config{Table: messages, Views: views}
	table := open(t, s, config)
	if _, err := table.For(views[0]); err != nil {
		t.Error(err)
	}
	check := func(err error, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v: want %s", err, part)
			}
		}
	}
	_, err := table.For(views[1])
	check(err, "--destination to-audit", "Columns", "audit_relayed_at",
		"`outbox-relay schema --destination to-audit`")
	if current, _, err := table.Current(t.Context()); err != nil || !current {
		t.Errorf("current %v, %v", current, err)
	}
	_, found, err := Examine(t.Context(), s.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	failures := 0
	for _, f := range found {
		if f.Severity == finding.Error {
			failures++
		}
	}
	if failures != len(auditColumns) {
		t.Errorf("%d columns are missing, findings %+v", failures, found)
	}
	s.Exec(t, strings.Replace(auditTable, "audit_failed_at timestamptz", "audit_failed_at text", 1))
	if current, _, err := table.Current(t.Context()); err != nil || current {
		t.Errorf("with columns of the wrong type: current %v, %v", current, err)
	}
	_, err = open(t, s, config).For(views[1])
	check(err, "Columns=failed_at:NAME, or change its type to one of these: timestamptz, timestamp", "audit_failed_at", "type text")
	s.Exec(t, "alter table outbox_messages alter audit_failed_at type timestamptz using null")
	if _, err := open(t, s, config).For(views[1]); err != nil {
		t.Error(err)
	}
	only := Config{Table: messages, Views: []View{{Name: "x", Columns: map[string]string{"relayed_at": "x_at"}}}}
	_, err = Open(t.Context(), s.Pool, only)
	check(err, "x_at")
}

// If a destination that blocks keys lacks its index, only this destination cannot use the table; if there is no other,
// the table cannot be opened.
func TestBlockingDestinationWithoutAnIndex(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id bigint primary key, topic text, key text, payload text, relayed_at "+
		"timestamptz, failed_at "+
		"timestamptz)")
	blocking, other := View{Name: "a", BlockFailed: true}, View{Name: "b", Filter: Filter{Before: [][]string{{"x"}}}}
	if _, err := Open(t.Context(), s.Pool, Config{Table: messages, Views: []View{blocking}}); err == nil ||
		!strings.Contains(err.Error(), "BlockFailed") {
		t.Errorf("alone: %v", err)
	}
	table := open(t, s, Config{Views: []View{blocking, other}})
	if _, err := table.For(blocking); err == nil {
		t.Error("it can be used beside another one")
	}
	if _, err := table.For(other); err != nil {
		t.Errorf("the other: %v", err)
	}
}

// A table needs no columns of state if all its destinations have columns of their own.
func TestNoColumnsOfTheTable(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id bigint primary key, topic text, payload text, a timestamptz, b "+
		"timestamptz)")
	s.Exec(t, "insert into outbox_messages select i, 't', 'p' from generate_series(1, 5) i")
	views := []View{
		{Name: "a", Columns: map[string]string{"relayed_at": "a"}},
		{Name: "b", Columns: map[string]string{"relayed_at": "b"}},
	}
	table := open(t, s, Config{Views: views})
	noTxid := func(f finding.Finding) bool { return strings.Contains(f.Remedy, "add column txid xid8") }
	if !slices.ContainsFunc(table.Lacks(), noTxid) ||
		slices.ContainsFunc(open(t, s, Config{Views: views[:1]}).Lacks(), noTxid) {
		t.Errorf("a table with two destinations lacks %v", table.Lacks())
	}
	for _, v := range views {
		view := viewOf(t, table, v)
		if err := settle(t.Context(), view, rowsOf(tail(t, view, Query{}))); err != nil {
			t.Fatal(err)
		}
		if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages where "+v.Name+" is not null"); n != 5 {
			t.Errorf("%d rows are marked for %s", n, v.Name)
		}
	}
}

// The index of a destination's rows is recognised by its predicate, whatever the topics'
// type is. Another index does not count: then gauges that would be expensive are not measured, and a warning gives the
// statement to run.
func TestIndexOfADestination(t *testing.T) {
	t.Parallel()
	for name, topic := range map[string]string{
		"text": "text", "varchar": "varchar(255)", "bpchar": "char(30)",
		"collation": `text collate "und-x-icu"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages (id bigint primary key, topic "+topic+` not null, payload text, relayed_at timestamptz,
				"Odd ""at" timestamptz, odd_failed timestamptz)`)
			s.Exec(t, "create index on outbox_messages (id) where relayed_at is null")
			for _, f := range []Filter{
				{Topics: []string{"order.*"}},
				{Topics: []string{"!order.internal.*", "order.*"}},
				{Topics: []string{"!a", "!b*"}},
				{Topics: []string{"a", "b", "c"}},
				{Topics: []string{`a\b`}},
				{Topics: []string{"a_b*"}},
				{Topics: []string{"b", `a\b`}},
				{Topics: []string{"a"}},
				{Topics: []string{"it's AND \"that\"*", `a\b`, "(", "a) AND (b*"}},
				{Before: [][]string{{"x*", "!xy*"}, {"z"}}},
			} {
				audit := View{
					Name: "audit", Filter: f,
					Columns: map[string]string{"relayed_at": `Odd "at`, "failed_at": "odd_failed"},
				}
				config := Config{Views: []View{{Name: "rest"}, audit}, Table: messages}
				look := func() (measured bool, remedy string) {
					t.Helper()
					table, found, err := Examine(t.Context(), s.Pool, config)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range found {
						if f.Check == checkIndex && f.Severity == finding.Warning && strings.HasSuffix(f.Subject, "audit") &&
							strings.Contains(f.Remedy, `("id")`) {
							remedy = f.Remedy
						}
					}
					return viewOf(t, table, config.Views[1]).PendingIndexed(), remedy
				}
				if measured, remedy := look(); measured || remedy == "" {
					t.Errorf("%v without an index: measured %v, remedy %s", f, measured, remedy)
				}
				s.Exec(t, `create index without_filter on outbox_messages (id) where "Odd ""at" is null and odd_failed is null`)
				measured, remedy := look()
				if measured || remedy == "" {
					t.Errorf("%v with an index without the filter: measured %v, remedy %s", f, measured, remedy)
				}
				s.Exec(t, "drop index without_filter")
				s.Exec(t, strings.Replace(strings.Replace(remedy, "concurrently", "", 1), "index", "index its_own", 1))
				if measured, remedy := look(); !measured || remedy != "" {
					t.Errorf("%v with its index: measured %v, remedy %s, predicate %s", f, measured, remedy,
						pgtest.Value[string](t, s,
							"select pg_get_expr(indpred, indrelid) from pg_index where indexrelid = 'its_own'::regclass"))
				}
				other := audit
				other.Topics = append(slices.Clone(f.Topics), "!another")
				config.Views[1] = other
				if measured, remedy := look(); measured || remedy == "" {
					t.Errorf("%v with the index of %v: measured %v, remedy %s", other, f, measured, remedy)
				}
				s.Exec(t, "drop index its_own")
			}
		})
	}
}

func TestConjuncts(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string][]string{
		"":                                  nil,
		"(a IS NULL)":                       {"a is null"},
		`"a" is null and "b c" is null`:     {"a is null", "b c is null"},
		"((a IS NULL) AND (b IS NOT NULL))": {"a is null", "b is not null"},
		"((a ~~ 'it''s (%'::text) AND ((b) OR (c > 1)))": {"a ~~ 'it''s %'", "b or c > 1"},
		"x = ANY (ARRAY['a'::text, ')'::text])":          {"x = 'a', ''"},
	} {
		if got := conjuncts(condition); !slices.Equal(got, want) {
			t.Errorf("%s: %q", condition, got)
		}
	}
}
