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

// recommended is the table that `outbox-relay schema` prints.
func recommended() string { return sql.Schema(messages) }

func examine(t *testing.T, s *pgtest.Schema, config Config, channel string) (*Table, []finding.Finding) {
	t.Helper()
	config.Table, config.Channel = messages, channel
	table, found, err := Examine(t.Context(), s.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Check == "" || f.Found == "" || (f.Remedy == "") != (f.Severity == finding.OK) ||
			strings.HasSuffix(f.Found, ".") {
			t.Errorf("incomplete: %+v", f)
		}
	}
	return table, found
}

// worse returns the findings that are not ok.
func worse(found []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f finding.Finding) bool { return f.Severity == finding.OK })
}

// Each missing index is named with its cost, and applying the printed statement solves the problem.
func TestExamineIndexes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ddl  string
		says []string
	}{
		"recommended": {recommended(), nil},
		"A":           {pgtest.ShapeA, []string{"also holds failed"}},
		"B":           {pgtest.ShapeB, nil},
		"C":           {pgtest.ShapeC, []string{"no index of pending rows in their order", "no index of failed rows"}},
		"relayed rows in it": {
			pgtest.ShapeC + "; create index on outbox_messages (inserted_at) where failed_at is null",
			[]string{"no index of pending rows in their order", "no index of failed rows"},
		},
		"heap": {
			`create table outbox_messages (id text, topic text, payload json, "Key" text, relayed_at timestamptz, failed_at
				timestamptz,
				attempt int, last_error text, updated_at timestamptz, inserted_at timestamptz)`,
			[]string{"no index of pending rows in their order", "no index of failed rows"},
		},
		"priority": {
			recommended() + "alter table outbox_messages add priority int",
			[]string{"which is that of priorities"},
		},
		"priority alone": {strings.Replace(strings.Replace(recommended(), "create index",
			"alter table outbox_messages add priority int;create index", 1), "(seq)\n  where relayed_at",
			"((~coalesce(priority, 0)::bigint), seq)\n  where relayed_at", 1), nil},
		"delays": {
			recommended() + "alter table outbox_messages add available_at timestamptz",
			[]string{"no index of due times"},
		},
		"delays and priority": {
			recommended() + "alter table outbox_messages add available_at timestamp, add priority int",
			[]string{"which is that of priorities", "no index of due times"},
		},
		"schema --delays": {recommended() + delaying(), nil},
		"partitioned": {`create table outbox_messages (id uuid, topic text, payload jsonb, relayed_at timestamptz, failed_at
			timestamptz, attempt
		int, last_error text, updated_at timestamptz, inserted_at timestamptz not null) partition by range (inserted_at);
			create table outbox_all partition of outbox_messages
			default`, []string{"no index of pending rows in their order", "no index of failed rows"}},
		"keys, schema with a priority": {sql.SchemaNamed(messages, map[string]string{"priority": "priority"}), nil},
		"keys, partitions with a priority": {
			sql.Partitioned(messages, map[string]string{"priority": "priority"}, "false") +
				"; create index on outbox_messages (id)", nil,
		},
		"keys": {pgtest.ShapeB + "; alter table outbox_messages add key uuid", []string{"no index of pending rows by key"}},
		"keys and priority": {
			pgtest.ShapeB + "; alter table outbox_messages add key text, add priority int",
			[]string{"no index of pending rows by key", "which is that of priorities"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, c.ddl)
			config := Config{Key: rowkey.Source{Kind: rowkey.None}}
			if strings.HasPrefix(name, "keys") {
				config.Key.Kind = rowkey.Default
			}
			_, found := examine(t, s, config, "")
			said := 0
			for _, f := range worse(found) {
				if f.Check != "index" {
					continue
				}
				said++
				if !slices.ContainsFunc(c.says, func(part string) bool { return strings.Contains(f.Found, part) }) {
					t.Errorf("unexpected: %s", f.Found)
				}
				s.Exec(t, f.Remedy)
			}
			if said != len(c.says) {
				t.Errorf("%d findings, want %q", said, c.says)
			}
			_, found = examine(t, s, config, "")
			for _, f := range worse(found) { // with an index of due times, one of the other rows is better
				if f.Check == "index" && strings.HasPrefix(name, "delays") {
					s.Exec(t, f.Remedy)
				}
			}
			_, found = examine(t, s, config, "")
			for _, f := range worse(found) {
				if f.Check == "index" {
					t.Errorf("after its remedy: %s", f.Found)
				}
			}
		})
	}
}

func TestExamineTable(t *testing.T) {
	t.Parallel()
	const doorbell = "ListenChannel=bell"
	for name, c := range map[string]struct {
		ddl    string
		config Config
		check  string
		says   string // expected text, "" if nothing is wrong
		remedy string
	}{
		"well":           {recommended(), Config{}, "", "", ""},
		"no key":         {pgtest.ShapeB, Config{}, "columns", "no row has an ordering key", "Key"},
		"no key, and so": {pgtest.ShapeB, Config{Key: rowkey.Source{Kind: rowkey.None}}, "", "", ""},
		"ignored": {
			recommended() + "alter table outbox_messages add available_at integer",
			Config{},
			"columns", "available_at (integer)",
			"Columns",
		},
		"no failed_at": {
			recommended() +
				"alter table outbox_messages drop failed_at; create index on outbox_messages (seq) where relayed_at is null",
			Config{},
			"columns",
			"there is no failed_at", "name it with Columns",
		},
		"no attempt": {
			recommended() + "alter table outbox_messages drop attempt",
			Config{},
			"columns", "there is no attempt",
			"name it with Columns",
		},
		"random order": {
			`create table outbox_messages (id uuid primary key, topic text, payload jsonb, key text)`,
			Config{Delete: true},
			"order", "does not grow with time", "Columns=order:NAME",
		},
		"deletes, and holds what was marked before": {
			recommended() + "drop index outbox_messages_pending_idx; create index on outbox_messages (seq, id)",
			Config{Delete: true},
			"index", "no index of pending rows in their order", `where "relayed_at" is null`,
		},
		"whole seconds": {
			strings.ReplaceAll(pgtest.ShapeB, "inserted_at timestamp not null", "inserted_at timestamp(0) not null, key text"),
			Config{},
			"order", "whole seconds", "seq bigint",
		},
		"ids twice": {
			strings.Replace(recommended(), "uuid primary key", "uuid not null", 1) + "create index on outbox_messages (id)",
			Config{},
			"id", "no unique index holds id alone", "primary key",
		},
		"ids may be null": {
			strings.Replace(recommended(), "uuid primary key", "uuid unique", 1),
			Config{},
			"id", "no unique index holds id alone",
			"primary key",
		},
		"ids in children": {
			recommended() + "create table child () inherits (outbox_messages)",
			Config{},
			"id", "no unique index holds id alone",
			"in all of them",
		},
		"ids by day": {
			strings.Replace(strings.Split(recommended(), ") with (")[0], "uuid primary key", "uuid not null", 1) + `, primary
				key (id, inserted_at))
			partition by range (inserted_at);
			create table one partition of outbox_messages default; create index on outbox_messages (seq) where relayed_at is
			null and failed_at is
			null; create index on outbox_messages (failed_at) where failed_at is not null`,
			Config{},
			"id", "no unique index holds id alone", "in all of them",
		},
		"ids by day, and no day yet": {
			`create table outbox_messages (id uuid not null, topic text, payload jsonb, key text, relayed_at timestamptz,
				failed_at timestamptz, attempt int, last_error text, updated_at timestamptz, inserted_at timestamptz not null,
				primary key (id, inserted_at)) partition by range (inserted_at);
			create index on outbox_messages (inserted_at) where relayed_at is null and failed_at is null;
			create index on outbox_messages (failed_at) where failed_at is not null`,
			Config{},
			"id", "no unique index holds id alone", "in all of them",
		},
		"no last_error and no updated_at": {
			recommended() + "alter table outbox_messages drop last_error, drop updated_at",
			Config{},
			"columns", "there is no last_error, updated_at", "name it with Columns",
		},
		"cached sequence": {
			recommended() + "alter table outbox_messages alter seq set cache 32",
			Config{},
			"order", "a sequence with a cache",
			"cache 1",
		},
		"same channel": {recommended() + sql.Doorbell(messages, "bell"), Config{}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, c.ddl)
			table, found := examine(t, s, c.config, strings.TrimPrefix(doorbell, "ListenChannel="))
			if table == nil {
				t.Fatalf("not usable: %+v", found)
			}
			bad := slices.DeleteFunc(worse(found), func(f finding.Finding) bool { // the tables of most cases lack it
				return strings.Contains(f.Found, "no index of pending rows by key")
			})
			switch {
			case c.says == "" && len(bad) > 0:
				t.Errorf("unexpected: %+v", bad)
			case c.says != "" && (len(bad) != 1 || bad[0].Check != c.check || !strings.Contains(bad[0].Found, c.says) ||
				!strings.Contains(bad[0].Remedy, c.remedy)):
				t.Errorf("got %+v", bad)
			}
		})
	}
}

// All problems are reported at once, and missing rights as one finding.
func TestExamineReportsAllProblems(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id numeric, topic text, key text, relayed_at boolean)")
	config := Config{Extra: []rowkey.Source{{Name: "tenant"}}, Columns: map[string]string{"header.type": "kind"}}
	table, found := examine(t, s, config, "")
	if table != nil || len(found) != 5 {
		t.Errorf("%d findings: %+v", len(found), found)
	}
	for _, f := range found {
		if f.Severity != finding.Error || f.Check != "columns" {
			t.Errorf("%+v", f)
		}
	}
}

func TestExamineRights(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	role := s.NewRole(t)
	pool := s.PoolAs(t, role)
	name := Config{Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}}
	look := func() (*Table, []finding.Finding) {
		table, found, err := Examine(t.Context(), pool, name)
		if err != nil {
			t.Fatal(err)
		}
		return table, found
	}
	s.Exec(t, "grant usage on schema "+s.Name+" to "+role)
	table, found := look()
	bad := worse(found)
	if table != nil || len(bad) != 1 || bad[0].Check != "rights" ||
		!strings.Contains(bad[0].Remedy, "outbox-relay grants --role "+role) ||
		!strings.Contains(bad[0].Found, "rows cannot be read and marked: ERROR: permission denied for table outbox_messages") {
		t.Errorf("%+v", found)
	}
	s.Exec(t, sql.Grants(sql.Rights{
		Table: name.Table, Role: role,
		Updates: []string{"relayed_at", "attempt", "failed_at", "last_error", "updated_at"},
	}))
	if table, found = look(); table == nil || len(worse(found)) > 0 {
		t.Errorf("with the grants: %+v", worse(found))
	}
	s.Exec(t, "alter table outbox_messages enable row level security")
	if table, found = look(); table == nil || len(worse(found)) != 2 ||
		!strings.Contains(worse(found)[0].Found, "row security") {
		t.Errorf("with row security: %+v", worse(found))
	}
}
