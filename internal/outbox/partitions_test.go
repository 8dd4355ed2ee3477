package outbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// dailyTable creates the recommended table with partitions for a number of past days, and the coming ones.
func dailyTable(t *testing.T, s *pgtest.Schema, days int) {
	t.Helper()
	s.Exec(t, sql.Partitioned(messages, nil, "false"))
	s.Exec(t, fmt.Sprintf(`do $$ begin for i in 1..%d loop
		execute format('create table past_%%s partition of outbox_messages for values from (%%L) to (%%L)',
			i, current_date - i, current_date - i + 1);
		end loop; end $$`, days))
}

const insertDaysAgo = "insert into outbox_messages (topic, key, payload, inserted_at) " +
	"values ('t', 'k', '{}', now() - $1::int * interval '1 day')"

// Reads and writes of a table with a partition for each day open those of the present and those with pending rows, and
// no others.
func TestStatementsNameFewPartitions(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	dailyTable(t, s, 40)
	for _, days := range []int{0, 0, 17, 18, 19} {
		s.Exec(t, insertDaysAgo, days)
	}
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: messages})
	if err != nil {
		t.Fatal(err)
	}
	plans.take() // Open looks where rows are pending
	page := tail(t, table, Query{})
	if len(page.Rows) != 5 {
		t.Fatalf("%d rows", len(page.Rows))
	}
	tail(t, table, Query{After: page.Rows[0].Position})
	tail(t, table, Query{After: page.Rows[0].Position, Seen: &page.Visible, Low: &page.Rows[0].Position.Ordinal})
	if _, err := table.Keys(t.Context(),
		Query{Asks: []Ask{{Hash: page.Rows[0].Hash, Limit: 9}}, Most: anyNumber}); err != nil {
		t.Fatal(err)
	}
	var rows []*Row
	for i := range page.Rows {
		rows = append(rows, &page.Rows[i])
	}
	if _, err := settleFree(t.Context(), table, rows[:1]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := refuse(t.Context(), table,
		[]Refusal{{Row: rows[1], Error: "no"}}); err != nil {
		t.Fatal(err)
	}
	if err := settle(t.Context(), table, append(rows[2:], rows[1])); err != nil {
		t.Fatal(err)
	}
	found := plans.take()
	for _, plan := range found {
		for _, other := range []string{"past_20", "past_31", "outbox_messages_default"} {
			if strings.Contains(plan, other) {
				t.Errorf("%s is named:\n%s", other, plan)
			}
		}
	}
	if len(found) < 8 {
		t.Errorf("%d plans", len(found))
	}
	if left := pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null"); left != 0 {
		t.Errorf("%d rows are left", left)
	}
}

// Rows that come into a partition that no statement names, into the default partition for example, are found by the
// sweep, and by the next look at the catalogue, after which the table is to be opened again.
func TestRowsOfOtherPartitions(t *testing.T) {
	t.Parallel()
	for name, days := range map[string]int{"past": 25, "default, past": 400, "default, future": -400} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			dailyTable(t, s, 40)
			config := Config{Table: messages}
			table := open(t, s, config)
			if rows := tail(t, table, Query{}).Rows; len(rows) != 0 {
				t.Fatalf("%d rows", len(rows))
			}
			s.Exec(t, insertDaysAgo, 0)
			if current, _, err := table.Current(t.Context()); err != nil || !current {
				t.Errorf("after a row of today the table is current: %v, %v", current, err)
			}
			s.Exec(t, insertDaysAgo, days)
			if rows := tail(t, table, Query{}).Rows; len(rows) != 1 {
				t.Errorf("%d rows at first", len(rows))
			}
			swept, err := table.Tail(t.Context(), Query{Sweep: true, Most: Most{Rows: 9}})
			if err != nil || len(swept.Rows) != 2 {
				t.Errorf("%d rows swept, %v", len(swept.Rows), err)
			}
			if current, _, err := table.Current(t.Context()); err != nil || current {
				t.Errorf("the table is current: %v, %v", current, err)
			}
			if current, _, err := table.Current(t.Context()); err != nil || !current {
				t.Errorf("again: the table is current: %v, %v", current, err)
			}
			for _, table := range []*Table{table, open(t, s, config)} {
				if rows := tail(t, table, Query{}).Rows; len(rows) != 2 {
					t.Errorf("%d rows in the end", len(rows))
				}
			}
		})
	}
}

// Partitions of which each statement opens all are reported when there are many, those by time when there are very
// many.
func TestExamineManyPartitions(t *testing.T) {
	t.Parallel()
	for ddl, says := range map[string]string{
		"partition by hash (id)":  "there are very many partitions",
		"partition by range (at)": "",
	} {
		s := pgtest.New(t)
		s.Exec(t, "create table outbox_messages (id bigint not null, topic text, payload text, at date, relayed_at "+
			"timestamptz) "+ddl)
		form, values := "with (modulus 40, remainder %s)", "i"
		if says == "" {
			form, values = "from (%L) to (%L)", "current_date + i, current_date + i + 1"
		}
		s.Exec(t, `do $$ begin for i in 0..39 loop execute format('create table p%s partition of outbox_messages for values `+
			form+
			"', i, "+values+"); end loop; end $$")
		_, found := examine(t, s, Config{}, "")
		named := slices.ContainsFunc(found, func(f finding.Finding) bool {
			return strings.Contains(f.Found, "there are very many partitions")
		})
		if named != (says != "") {
			t.Errorf("%s: %+v", ddl, worse(found))
		}
	}
}

// Bounds of every form are understood: open ends, gaps, other types of the key.
func TestSpans(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id bigint, topic text, payload text, day date, relayed_at timestamptz) "+
		"partition by range (day)")
	s.Exec(t, `do $$ begin for i in 0..9 loop execute
		format('create table p%s partition of outbox_messages for values from (%s) to (%s)', i,
		case when i = 0 then 'minvalue' else quote_literal(current_date - 9 + i) end,
		case when i = 9 then 'maxvalue' else quote_literal(current_date - 8 + i) end); end loop; end $$`)
	s.Exec(t, "insert into outbox_messages select i, 't', '', current_date - i from generate_series(0, 20) i where i % "+
		"3 = 0")
	table := open(t, s, Config{})
	if rows := tail(t, table, Query{}).Rows; len(rows) != 7 || table.relation.parts == nil {
		t.Errorf("%d rows", len(rows))
	}
}
