package outbox

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// dedupIDs returns the ids of all pending rows.
func dedupIDs(t *testing.T, s *pgtest.Schema) (ids []string) {
	t.Helper()
	table := open(t, s, Config{})
	for _, row := range scan(t, table, Query{}, 1000) {
		ids = append(ids, row.Message.DedupID)
	}
	return ids
}

// origin returns the server's own identifiers of itself and the database.
func origin(t *testing.T, s *pgtest.Schema) string {
	t.Helper()
	return pgtest.Value[string](t, s,
		"select (select system_identifier from pg_control_system()) || '.' || oid from pg_database where datname = "+
			"current_database()")
}

// An id that is not a uuid is only meaningful within its table and its time.
func TestDedupID(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ columns, row, want string }{
		"number": {
			"id bigint primary key, inserted_at timestamptz", "(7, '2026-01-02 03:04:05.678901+00')",
			"%s/7@1767323045678901",
		},
		"without zone": {
			"id int primary key, inserted_at timestamp", "(7, '2026-01-02 03:04:05.678901')",
			"%s/7@1767323045678901",
		},
		"whole seconds": {
			"id smallint primary key, inserted_at timestamp(0)", "(-7, '1969-12-31 23:59:59')",
			"%s/-7@-1000000",
		},
		"text": {
			"id text primary key, inserted_at timestamptz", "('a/b@c', '2026-01-02 03:04:05Z')",
			"%s/a/b@c@1767323045000000",
		},
		"no time":         {"id bigint primary key, inserted_at timestamptz", "(7, null)", "%s/7"},
		"end of time":     {"id bigint primary key, inserted_at timestamptz", "(7, 'infinity')", "%s/7"},
		"end of calendar": {"id bigint primary key, inserted_at timestamptz", "(7, '294276-12-31 23:59:59Z')", "%s/7"},
		"no such column":  {"id bigint primary key, other int", "(7, 1)", "%s/7"},
		"uuid": {
			"id uuid primary key, inserted_at timestamptz", "('123e4567-e89b-12d3-a456-426614174000', now())",
			"123e4567-e89b-12d3-a456-426614174000",
		},
		"uuid as a text": {
			"id varchar(36) primary key, other int", "('123e4567-e89b-12d3-a456-426614174000', 1)",
			"%s/123e4567-e89b-12d3-a456-426614174000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages ("+test.columns+
				", topic text default 't', payload text, relayed_at timestamptz)")
			s.Exec(t, "insert into outbox_messages values "+test.row)
			want := test.want
			if name != "uuid" {
				want = fmt.Sprintf(want, origin(t, s)+"/"+s.Name+".outbox_messages")
			}
			if got := dedupIDs(t, s); len(got) != 1 || got[0] != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Two databases with tables of the same name, a table whose ids begin again, and a role that may not read the server's
// identifier.
func TestDedupIDsAreApart(t *testing.T) {
	t.Parallel()
	role := pgtest.New(t).NewRole(t) // dropped after the databases in which it has rights
	shop, billing := pgtest.NewDatabase(t), pgtest.NewDatabase(t)
	seen := map[string]bool{}
	note := func(what string, ids []string, want int) {
		t.Helper()
		if len(ids) != want {
			t.Fatalf("%s: %d rows, want %d", what, len(ids), want)
		}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("%s: %s was the id of another row", what, id)
			}
			seen[id] = true
		}
	}
	const rows = 100
	fill := func(s *pgtest.Schema) {
		s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at) select 't', '1', clock_timestamp(),
			now()
			from generate_series(1, $1)`, rows)
	}
	sources := map[string]bool{}
	for _, s := range []*pgtest.Schema{shop, billing} {
		s.Exec(t, pgtest.ShapeC)
		s.Exec(t, "alter table outbox_messages alter inserted_at type timestamp") // includes fractions of seconds
		fill(s)
		note("another database", dedupIDs(t, s), rows)
		sources[tail(t, open(t, s, Config{}), Query{Most: Most{Rows: 1}}).Rows[0].Message.Source] = true
	}
	if want := "/" + origin(t, billing) + "/public.outbox_messages"; len(sources) != 2 || !sources[want] {
		t.Errorf("the sources of two databases are %v, want %s among two", sources, want)
	}
	again := dedupIDs(t, shop)
	for i, id := range dedupIDs(t, shop) {
		if id != again[i] {
			t.Errorf("row %d has the ids %s and %s by turns", i, again[i], id)
		}
	}
	shop.Exec(t, "truncate outbox_messages restart identity")
	fill(shop)
	note("numbered from 1 again", dedupIDs(t, shop), rows)

	billing.Exec(t, "revoke execute on function pg_control_system() from public")
	billing.Exec(t, "grant select, update on outbox_messages to "+role)
	table, err := Open(t.Context(), billing.PoolAs(t, role), Config{Table: messages})
	if err != nil {
		t.Fatal(err)
	}
	database := pgtest.Value[string](t, billing, "select oid::text from pg_database where datname = current_database()")
	row := tail(t, table, Query{Most: Most{Rows: 1}}).Rows[0]
	if want := fmt.Sprintf("%s/public.outbox_messages/1@%d", database,
		row.Message.Inserted.UnixMicro()); row.Message.DedupID != want {
		t.Errorf("without the right the id is %s, want %s", row.Message.DedupID, want)
	}
	if _, err := url.Parse(row.Message.Source); err != nil ||
		row.Message.Source != "/"+database+"/public.outbox_messages" {
		t.Errorf("without the right the source is %s (%v)", row.Message.Source, err)
	}
	if f := table.ExamineDedupIDs("", nil); len(f) != 1 || f[0].Severity != finding.Warning {
		t.Errorf("without the right: %+v", f)
	}
	if f := open(t, billing, Config{}).ExamineDedupIDs("", nil); len(f) != 0 {
		t.Errorf("with the right: %+v", f)
	}
}

// Ids that two rows may share cause a warning with its remedy.
func TestExamineDedupIDs(t *testing.T) {
	t.Parallel()
	timed := mapping{Inserted: Column{Name: "inserted_at"}}
	for name, test := range map[string]struct {
		id, cluster string
		mapping     mapping
		prefix      string
		found       []string // one word of each finding and of its remedy
	}{
		"uuid":            {"", "7", timed, "", nil},
		"everything":      {"7.5/public.outbox_messages/", "7", timed, "", nil},
		"prefix":          {"5/public.outbox_messages/", "", timed, "shop", nil},
		"no right":        {"5/public.outbox_messages/", "", timed, "", []string{"system identifier|pg_control_system"}},
		"no time":         {"7.5/public.outbox_messages/", "7", mapping{}, "", []string{"restart identity|inserted_at"}},
		"prefix, no time": {"5/public.outbox_messages/", "", mapping{}, "shop", []string{"restart identity|inserted_at"}},
		"neither":         {"5/public.outbox_messages/", "", mapping{}, "", []string{"system identifier|DedupPrefix"}},
	} {
		test.mapping.relation = &relation{cluster: test.cluster}
		found := (&Table{prefix: test.id, mapping: &test.mapping}).ExamineDedupIDs(test.prefix, nil)
		if len(found) != len(test.found) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		for i, f := range found {
			says, remedy, _ := strings.Cut(test.found[i], "|")
			if !strings.Contains(f.Found, says) || !strings.Contains(f.Remedy, remedy) ||
				(f.Severity == finding.OK) != (remedy == "") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
