package pgsession_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// It was decided about every setting that a user, a role or a database can give to a session, in both versions of the
// server.
func TestEverySettingIsDecided(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"TEST_DATABASE_URL", "TEST_DATABASE_URL_OTHER"} {
		conn := connect(t, os.Getenv(variable))
		rows, err := conn.Query(t.Context(),
			"select name from pg_settings where context in ('user', 'superuser', 'backend', 'superuser-backend')")
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(names) < 150 {
			t.Fatal(len(names), err)
		}
		for _, name := range names {
			if !pgsession.Decided(name) {
				t.Errorf("%s: add %s to settings.txt", variable, name)
			}
		}
	}
	if pgsession.Decided("keepalive") || !pgsession.Decided("datestyle") || !pgsession.Decided("app.tenant") {
		t.Error("decided about the wrong names")
	}
}

// A session has the relay's settings whatever the role sets; so has a transaction in a session of somebody else, and
// only that transaction.
func TestHostileRole(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	hostile := s.HostileURL(t)
	own := connect(t, hostile)
	if err := pgsession.Own(t.Context(), own); err != nil || !pgsession.IsOwn(own) {
		t.Fatalf("own %v: %v", pgsession.IsOwn(own), err)
	}
	friendly := shown(t, connect(t, s.URL), "")
	if got := shown(t, own, ""); got != friendly {
		t.Errorf("own session:\n%s\nbut a friendly one:\n%s", got, friendly)
	}
	lent := connect(t, hostile)
	tx, err := lent.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err == nil {
		err = pgsession.Within(t.Context(), tx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := shown(t, lent, ""); got != friendly {
		t.Errorf("transaction:\n%s\nbut a friendly one:\n%s", got, friendly)
	}
	if level := shown(t, lent, "current_setting('transaction_isolation')"); level != "read committed" {
		t.Error("the transaction is", level)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, lent, ""); got == friendly {
		t.Error("the settings outlast the transaction")
	}
}

// A session that a pooler lends keeps its settings.
func TestPooler(t *testing.T) {
	t.Parallel()
	conn := connect(t, os.Getenv("TEST_PGBOUNCER_URL"))
	before := shown(t, conn, "current_setting('lc_numeric') || current_setting('jit')")
	if err := pgsession.Own(t.Context(), conn); err != nil || pgsession.IsOwn(conn) {
		t.Fatalf("own %v: %v", pgsession.IsOwn(conn), err)
	}
	if after := shown(t, conn, "current_setting('lc_numeric') || current_setting('jit')"); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// A schema before pg_catalog in the search path does not shadow the functions that the relay's statements call.
func TestShadowedFunctions(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create function "+s.Name+".octet_length(text) returns integer language sql as 'select -1'")
	conn := connect(t, s.URL)
	if _, err := conn.Exec(t.Context(), "set search_path = "+s.Name+", pg_catalog"); err != nil {
		t.Fatal(err)
	}
	const call = "octet_length('four'::text)::text"
	if got := shown(t, conn, call); got != "-1" {
		t.Fatal("not shadowed:", got)
	}
	if err := pgsession.Own(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, conn, call); got != "4" {
		t.Error("still shadowed:", got)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	pgsession.Startup(config.RuntimeParams)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// shown returns the value of an expression, by default one that shows how values are written and statements understood.
func shown(t *testing.T, conn *pgx.Conn, expression string) (text string) {
	t.Helper()
	if expression == "" {
		expression = `concat_ws(e'\n', '\x6b01'::bytea, timestamptz '2026-04-03 05:06:07.89+02', date '2026-04-03', interval
			'1 day 2 hours',
			1::float8 / 3, 12.5::float4, 1234.5::money, to_char(1234.5, 'L9G999D9'), 'a\b',
			(select count(*) from (values (1), (null)) v (a) where a = null),
			xmlelement(name x, '\x6b01'::bytea), pg_get_viewdef('pg_catalog.pg_user'::regclass),
			(select string_agg(name || setting, ' ' order by name) from pg_settings where category like 'Query Tuning%' and name
			!~ '^(geqo|jit)'),
			current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('idle_session_timeout'),
			current_setting('row_security'))`
	}
	if err := conn.QueryRow(t.Context(), "select "+expression, pgx.QueryExecModeExec).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}
