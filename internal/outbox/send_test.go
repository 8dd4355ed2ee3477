package outbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// single returns a schema whose pool has one connection, with a session of the relay's own or as a pooler lends it.
func single(t *testing.T, own bool) *pgtest.Schema {
	t.Helper()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	s.Pool = s.PoolWith(t, func(c *pgxpool.Config) {
		if c.MaxConns = 1; own {
			c.AfterConnect = pgsession.Own
		}
	})
	return s
}

// query returns the answer to a statement that the connection does not keep.
func query[T any](t *testing.T, s *pgtest.Schema, statement string) []T {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), statement, pgx.QueryExecModeExec)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// A direct connection parses a statement once.
func TestStatementsStayPrepared(t *testing.T) {
	t.Parallel()
	s := single(t, true)
	table := open(t, s, Config{})
	for range 10 {
		tail(t, table, Query{})
	}
	prepared := query[string](t, s,
		"select statement from pg_prepared_statements where name like 'outbox_relay_%' order by name")
	if len(prepared) != 2 || !strings.Contains(prepared[0], "set_config") ||
		!strings.Contains(prepared[1], "outbox_messages") {
		t.Fatalf("prepared: %q", prepared)
	}
	if used := query[int64](t, s,
		"select custom_plans + generic_plans from pg_prepared_statements where statement like '%outbox_messages%'"); len(
		used) != 1 ||
		used[0] != 10 {
		t.Errorf("used %d times", used)
	}
}

// Behind a transaction pooler another of the server's connections may get the next statement.
func TestNothingIsPreparedThroughAPooler(t *testing.T) {
	t.Parallel()
	s := single(t, false)
	tail(t, open(t, s, Config{}), Query{})
	if prepared := query[string](t, s, "select statement from pg_prepared_statements where from_sql"); len(prepared) != 0 {
		t.Errorf("prepared: %q", prepared)
	}
}

// Prepared statements that are no longer usable are dropped with their connection.
func TestPreparedStatementsThatAreLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]string{
		"taken away":               "deallocate all",
		"a column of another type": "alter table outbox_messages alter payload type text",
		"a column that is there again": "alter table outbox_messages rename topic to x; alter table outbox_messages rename " +
			"x to topic",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := single(t, true)
			table := open(t, s, Config{})
			s.Exec(t, pgtest.Insert, "t", "{}")
			tail(t, table, Query{})
			if _, err := s.Pool.Exec(t.Context(), lose, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			if _, err := table.Tail(t.Context(), Query{Most: anyNumber}); err != nil {
				if !strings.Contains(err.Error(), "prepared again") && !Changed(err) {
					t.Errorf("says %q", err)
				}
				table = open(t, s, Config{})
			}
			if rows := tail(t, table, Query{}).Rows; len(rows) != 1 {
				t.Errorf("read %d rows", len(rows))
			}
		})
	}
}

// A session of the relay's own keeps its limits until other ones are wanted, and statements that are planned once.
// After an error the limits are set again, since the server has taken them back.
func TestLimitsStayWithTheSession(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	s.Pool = s.PoolWith(t, func(c *pgxpool.Config) { c.MaxConns, c.AfterConnect = 1, pgsession.Own })
	table := open(t, s, Config{})
	limit := func() string { return query[string](t, s, "select current_setting('enable_sort')")[0] }
	for range 10 {
		tail(t, table, Query{})
	}
	used := query[int64](t, s, `select generic_plans from pg_prepared_statements where statement like '%outbox_messages%'
		and custom_plans = 0
		union all select generic_plans + custom_plans from pg_prepared_statements where statement like '%set_config%'`)
	if len(used) != 2 || used[0] != 10 || used[1] != 1 {
		t.Errorf("used %d times", used)
	}
	if got := limit(); got != "off" {
		t.Errorf("after a read enable_sort is %s", got)
	}
	if _, err := table.Count(t.Context()); err != nil { // in the order of the same index
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := refuse(t.Context(), table, []Refusal{refusal("no uuid", 1, "")}); err == nil {
			t.Fatal("written")
		}
		if tail(t, table, Query{}); limit() != "off" {
			t.Error("after an error and a read enable_sort is on")
		}
	}
	if _, _, err := refuse(t.Context(), table, nil); err != nil || limit() != "on" {
		t.Errorf("after a write enable_sort is %s, %v", limit(), err)
	}
	tail(t, table, Query{})
	if got := limit(); got != "off" {
		t.Errorf("at last enable_sort is %s", got)
	}
}

// Every statement can stay prepared on a connection of the relay's own, as it does without a pooler, in tables of all
// shapes: some statements cannot be prepared, and must be sent otherwise.
func TestOwnConnections(t *testing.T) {
	t.Parallel()
	audit := View{Name: "audit", Columns: map[string]string{"relayed_at": "audit_at"}}
	for name, c := range map[string]struct {
		ddl    string
		config Config
	}{
		"A": {pgtest.ShapeA, Config{}}, "B": {pgtest.ShapeB, Config{}}, "C": {pgtest.ShapeC, Config{}},
		"recommended": {recommended(), Config{Shards: 16}},
		"delays":      {recommended() + delaying(), Config{Columns: map[string]string{"key": "topic"}}},
		"deletes":     {recommended(), Config{Delete: true}},
		"commands":    {recommended(), Config{Looks: true}},
		"days":        {"", Config{}},
		"destinations": {
			recommended() + "alter table outbox_messages add audit_at timestamptz",
			Config{Views: []View{{Name: "orders"}, audit}},
		},
		"no unique id": {originTables["no unique id"] + ";alter table outbox_messages alter id set default 1", Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			if s.Exec(t, c.ddl); c.ddl == "" {
				dailyTable(t, s, 20)
			}
			s.Pool = s.PoolWith(t, func(p *pgxpool.Config) { p.AfterConnect = pgsession.Own })
			for range 4 {
				s.Exec(t, pgtest.Insert, "t", "{}")
			}
			table := open(t, s, c.config)
			if c.config.Looks {
				return
			}
			page := tail(t, table, Query{})
			if len(page.Rows) != 4 {
				t.Fatalf("%d rows", len(page.Rows))
			}
			rows := each(page.Rows, func(r Row) *Row { return &r })
			asks := Query{Asks: []Ask{{Hash: rows[0].Hash, Limit: 1}}, Most: anyNumber}
			_, keys := table.Keys(t.Context(), asks)
			_, rehearsed := table.Rehearse(t.Context(), rows)
			refusal := Refusal{Row: rows[0]}
			_, _, refused := refuse(t.Context(), table, []Refusal{refusal})
			_, free := settleFree(t.Context(), table, rows[1:2])
			_, left := table.Left(t.Context(), new(End))
			_, tallied := table.Tally(t.Context(), Takers{SQL: "0"})
			current, _, looked := table.Current(t.Context())
			_, _, examined := Examine(t.Context(), s.Pool, table.config)
			settled := settle(t.Context(), table, rows[2:])
			if err := errors.Join(keys, rehearsed, refused, free, left, tallied, looked, examined, settled); err != nil ||
				!current {
				t.Errorf("current %v: %v", current, err)
			}
		})
	}
}
