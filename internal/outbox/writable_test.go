package outbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A table whose rows the server lets nobody mark, delete or refuse is not opened, and doctor reports the same error.
// Each case is another place in the server that refuses. With the remedy the table is opened.
func TestUnwritableTables(t *testing.T) {
	t.Parallel()
	const keyless = `create table outbox_messages (id bigint not null, seq bigint, topic text, payload jsonb, relayed_at
		timestamptz,
		attempt integer, failed_at timestamptz, last_error text, updated_at timestamptz)`
	const parts = keyless + ` partition by list (topic); create table a partition of outbox_messages default`
	const full = "alter table outbox_messages replica identity full"
	const publish = "; create publication SCHEMA for table outbox_messages"
	for name, test := range map[string]struct {
		schema, says, remedy string
		delete               bool
	}{
		"no replica identity": {schema: keyless + publish, says: "replica identity", remedy: full},
		"nor for deletes":     {schema: keyless + publish, says: "deletes", remedy: full, delete: true},
		"nor of a partition":  {schema: parts + publish, says: `"a"`, remedy: "alter table a replica identity full"},
		"nor of it for deletes": {
			schema: parts + publish, says: `"a"`, remedy: "alter table a replica identity full",
			delete: true,
		},
		"updates are not published": {schema: keyless + publish + " with (publish = 'insert')"},
		"deletes are not published": {schema: keyless + publish +
			" with (publish = 'insert, update'); alter table outbox_messages replica " +
			"identity full", delete: true},
		"a row filter": {
			schema: recommended() + publish + " where (topic <> 'x')", says: "replica identity", remedy: full,
		},
		"a generated column": {
			schema: "create table outbox_messages (id bigint primary key, topic text, payload jsonb, relayed_at timestamptz " +
				"generated always as " +
				"(null) stored)", says: "DEFAULT", remedy: "alter table outbox_messages alter relayed_at drop expression",
		},
		"a rule that does nothing": {
			schema: recommended() + "; create rule r as on update to outbox_messages do instead nothing", says: "has no effect",
			remedy: "drop rule r on outbox_messages",
		},
		"no policy for updates": {
			schema: recommended() + "; alter table outbox_messages enable row level security; create policy p on outbox_messages for select " +
				"using (true)", says: "row security", remedy: "create policy q on outbox_messages for all using (true)",
		},
		"an empty partitioned table": {schema: keyless + " partition by list (topic)" + publish},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			if strings.Contains(test.schema, " where (topic <> 'x')") && !hasRowFilters(t, s) {
				return
			}
			s.Exec(t, strings.ReplaceAll(test.schema, "SCHEMA", s.Name), pgx.QueryExecModeSimpleProtocol)
			role := s.NewRole(t)
			s.Exec(t, "grant usage on schema "+s.Name+" to "+role+"; grant select, update, delete on all tables in schema "+
				s.Name+" to "+role,
				pgx.QueryExecModeSimpleProtocol)
			own := s.PoolAs(t, role)
			prepared := s.PoolWith(t, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["role"], c.ConnConfig.DefaultQueryExecMode = role, pgx.QueryExecModeExec
			})
			config := Config{Table: sql.Table{Name: "outbox_messages"}, Delete: test.delete}
			for _, pool := range []*pgxpool.Pool{own, prepared} {
				_, err := Open(t.Context(), pool, config)
				setup, refused := errors.AsType[*SetupError](err)
				if refused != (test.says != "") || refused && !strings.Contains(setup.Error(), test.says) ||
					err != nil && !refused {
					t.Fatal(err)
				}
			}
			_, found, err := Examine(t.Context(), own, config)
			if err != nil {
				t.Fatal(err)
			}
			reported := false
			for _, f := range found {
				reported = reported || f.Severity == finding.Error && strings.Contains(f.Found+f.Remedy, test.says)
			}
			if reported != (test.says != "") {
				t.Errorf("%+v", found)
			}
			if test.remedy != "" {
				s.Exec(t, test.remedy)
				if _, err := Open(t.Context(), own, config); err != nil {
					t.Error("with the remedy:", err)
				}
			}
		})
	}
}

// hasRowFilters reports whether the server knows row filters of publications, which PostgreSQL 14 does not.
func hasRowFilters(t *testing.T, s *pgtest.Schema) (has bool) {
	t.Helper()
	const query = "select current_setting('server_version_num')::int >= 150000"
	if err := s.Pool.QueryRow(t.Context(), query).Scan(&has); err != nil {
		t.Fatal(err)
	}
	return has
}
