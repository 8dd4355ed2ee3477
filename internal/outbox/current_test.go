package outbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A table is current as long as no change affects how a relay understands it. Only the mapping of the columns that
// determine a row's shard or order distinguishes replicas.
func TestCurrent(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	config := Config{
		Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}, Shards: 16,
		Extra:   []rowkey.Source{{Name: "id"}, {Name: "topic"}},
		Columns: map[string]string{"header.a": "id", "header.b": "topic", "header.c": "attempt"},
	}
	open := func() *Table {
		t.Helper()
		table, err := Open(t.Context(), s.Pool, config)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	for _, test := range []struct {
		change           string
		current, mapping bool // unchanged
	}{
		{
			"insert into outbox_messages (topic, payload, inserted_at, updated_at) values ('t', '{}', now(), now())", true,
			true,
		},
		{"alter table outbox_messages add column nothing text", true, true},
		{"analyze outbox_messages", true, true},
		{"alter table outbox_messages add column available_at timestamptz", false, true},
		{"alter table outbox_messages add column key text", false, false},
		{"alter table outbox_messages add column seq bigint generated always as identity", false, false},
		{"create index on outbox_messages (seq) where relayed_at is null and failed_at is null", false, true},
		{"alter table outbox_messages add column priority integer", false, false},
		{"alter table outbox_messages alter column last_error type varchar(100)", false, true},
		{"alter table outbox_messages drop column failed_at", false, true},
		{"alter table outbox_messages drop column key", false, false},
		{
			"create table other (like outbox_messages including all); drop table outbox_messages; alter table other rename to " +
				"outbox_messages",
			false, true,
		},
	} {
		before := open()
		for _, change := range strings.Split(test.change, ";") {
			s.Exec(t, change)
		}
		current, _, err := before.Current(t.Context())
		if err != nil || current != test.current {
			t.Errorf("%s: %t, %v", test.change, current, err)
		}
		after := open()
		if same := after.mapping.mapping() == before.mapping.mapping(); same != test.mapping {
			t.Errorf("%s: %q, then %q", test.change, before.mapping.mapping(), after.mapping.mapping())
		}
		if current, _, err := after.Current(t.Context()); err != nil || !current {
			t.Errorf("%s: opened again: %t, %v", test.change, current, err)
		}
	}
}

// What is written is examined when a table is opened. A look at an open table does not plan these statements each time,
// and sees changes also while no row can be marked.
func TestCurrentWhereNothingCanBeMarked(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	config := Config{Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}, Shards: 16}
	table, err := Open(t.Context(), s.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "create rule nothing as on update to outbox_messages do instead nothing")
	if _, err := Open(t.Context(), s.Pool, config); err == nil {
		t.Error("the table was opened")
	}
	for _, current := range []bool{true, false} {
		if got, _, err := table.Current(t.Context()); err != nil || got != current {
			t.Errorf("current: %t, %v; want %t", got, err, current)
		}
		s.Exec(t, "alter table outbox_messages add column if not exists key text")
	}
}

// Row security may hide every row from a relay that then has nothing to do. That is told when the table is opened, and
// a look at a table that is open sees that it has become active.
func TestRowSecurityIsTold(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	role := s.NewRole(t)
	s.Exec(t, "grant usage on schema "+s.Name+" to "+role)
	s.Exec(t, "grant all on outbox_messages to "+role)
	as := &pgtest.Schema{Pool: s.PoolAs(t, role), Name: s.Name}
	before := open(t, as, Config{})
	s.Exec(t, "create policy visible on outbox_messages using (topic <> 'hidden')")
	s.Exec(t, "alter table outbox_messages enable row level security")
	if current, _, err := before.Current(t.Context()); err != nil || current {
		t.Errorf("current: %t, %v", current, err)
	}
	for table, told := range map[*Table]bool{before: false, open(t, as, Config{}): true} {
		if told != slices.ContainsFunc(table.Lacks(), func(f finding.Finding) bool {
			return strings.Contains(f.Found, "row security is active for role "+role)
		}) {
			t.Errorf("%t: %+v", told, table.Lacks())
		}
	}
}
