package sql_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

var messages = sql.Table{Name: "outbox_messages"}

// written are the columns that the relay updates.
var written = []string{"relayed_at", "attempt", "failed_at", "last_error", "updated_at"}

func connect(t *testing.T, s *pgtest.Schema) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a lock that is never released
	defer cancel()
	if _, err := conn.Exec(ctx, statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// The recommended table can be created under any name, and each of its columns except three has a default.
func TestSchemaApplies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"outbox_messages", `Odd "name" ö`, strings.Repeat("x", 63)} {
		s := pgtest.New(t)
		table := sql.Table{Schema: s.Name, Name: name}
		s.Exec(t, sql.Schema(table))
		s.Exec(t, "insert into "+table.Quoted()+
			" (topic, key, payload) values ('order.placed', 'order-17', '{\"total\": 42}')")
		if got := pgtest.Value[string](t, s,
			"select concat_ws(' ', seq, attempt, headers, relayed_at, failed_at, last_error, inserted_at = "+
				"updated_at) from "+table.Quoted()); got != "1 1 {} t" {
			t.Errorf("%s: the new row is %s", name, got)
		}
		if got := pgtest.Value[int](t, s, "select count(*) from pg_indexes where schemaname = $1", s.Name); got != 4 {
			t.Errorf("%s: %d indexes", name, got)
		}
	}
}

// The table has the names that are configured, whatever they are, and every column that the configuration requires.
func TestSchemaNamedApplies(t *testing.T) {
	t.Parallel()
	for name, columns := range map[string]map[string]string{
		"odd": {
			"id": "Message Id", "order": "100%s", "relayed_at": "it's sent", "failed_at": "dead", "inserted_at": "it's 5%",
			"priority":     "rank",
			"available_at": "not before", "header.tenant": "tenant", "topic": "key", "key": "topic",
		},
		"one for two":        {"order": "inserted_at", "key": "topic"},
		"mapped one for two": {"order": "created", "inserted_at": "created", "header.x": "topic"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ddl := range []string{sql.SchemaNamed(messages, columns), sql.Partitioned(messages, columns, "false")} {
				s := pgtest.New(t)
				s.Exec(t, ddl)
				for ours, theirs := range columns {
					if got := pgtest.Value[int](t, s,
						"select count(*) from information_schema.columns where table_schema = $1 and table_name = "+
							"'outbox_messages' and column_name = $2", s.Name, theirs); got != 1 {
						t.Errorf("there is no column %s for %s", theirs, ours)
					}
				}
			}
		})
	}
}

// The statements of the relay must be able to use the indexes.
func TestPendingIndexServesReads(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', now() from generate_series(1, "+
		"5000)")
	s.Exec(t, "insert into outbox_messages (topic, payload) select 't', '{}' from generate_series(1, 50)")
	s.Exec(t, "analyze outbox_messages")
	for query, index := range map[string]string{
		"select id from outbox_messages where relayed_at is null and failed_at is null order by seq, id limit 10": "outbox_messages_pending_idx",
		"select id from outbox_messages where relayed_at is null and failed_at is null and (seq, id) > (5010, " +
			"'00000000-0000-0000-0000-000000000000') order by seq limit 10": "outbox_messages_pending_idx",
		"select count(*) from (select 1 from outbox_messages where failed_at is not null limit 10) f": "outbox_messages_failed_idx",
		"select key from outbox_messages where failed_at is not null and (failed_at, id) > (now(), " +
			"'00000000-0000-0000-0000-000000000000') order by failed_at, id limit 10": "outbox_messages_failed_idx",
	} {
		rows, err := s.Pool.Query(t.Context(), "explain "+query)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, index) || strings.Contains(text, "->  Sort") {
			t.Errorf("%s\n%s", query, strings.Join(plan, "\n"))
		}
	}
}

// The trigger notifies while a relay sleeps, and only then.
func TestDoorbell(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := sql.Table{Schema: s.Name, Name: "outbox_messages"}
	channel := `it's a\channel of ` + s.Name
	s.Exec(t, sql.Schema(table))
	s.Exec(t, sql.Doorbell(table, "another"))
	s.Exec(t, sql.Doorbell(table, channel)) // again, with another channel
	listener, writer, sleeper := connect(t, s), connect(t, s), connect(t, s)
	exec(t, listener, "listen "+sql.Quote(channel))

	// heard inserts a row and then notifies by itself: the first notification shows whether the trigger fired.
	heard := func(state string, rings bool) {
		t.Helper()
		// A hostile search path must not change what the trigger calls.
		exec(t, writer, "begin")
		exec(t, writer, "set local search_path = "+s.Name+", pg_catalog")
		exec(t, writer, "insert into "+table.Quoted()+" (topic, payload) values ('t', '{}')")
		exec(t, writer, "commit")
		exec(t, writer, "select pg_notify($1, 'end')", channel)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var payloads []string
		for len(payloads) == 0 || payloads[len(payloads)-1] != "end" {
			n, err := listener.WaitForNotification(ctx)
			if err != nil {
				t.Fatalf("%s: %v", state, err)
			}
			payloads = append(payloads, n.Payload)
		}
		if got := len(payloads) > 1; got != rings {
			t.Errorf("%s: notified %v", state, got)
		}
		var held int
		if err := writer.QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory' and pid = "+
			"pg_backend_pid()").Scan(&held); err != nil || held != 0 {
			t.Errorf("%s: the writer holds %d locks (%v)", state, held, err)
		}
	}
	s.Exec(t, "create function pg_notify(text, text) returns void language sql as 'select 1/0'")
	s.Exec(t, "create table another_table ()")
	pulse := sql.Text("doorbell_pulse.sql", map[string]string{"class": sql.DoorbellClass})
	heard("awake", false)
	exec(t, sleeper, pulse, true, table.Quoted())
	heard("asleep", true)
	exec(t, sleeper, pulse, false, table.Quoted())
	heard("awake again", false)
	exec(t, sleeper, pulse, true, sql.Table{Schema: s.Name, Name: "another_table"}.Quoted())
	heard("another table's relay asleep", false)
}

// The removal statements that the script prints as a comment work.
func TestDoorbellIsRemovable(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := sql.Table{Schema: s.Name, Name: "outbox_messages"}
	s.Exec(t, sql.Schema(table)+sql.Doorbell(table, "c"))
	drops := 0
	for line := range strings.Lines(sql.Doorbell(table, "c")) {
		if statement, ok := strings.CutPrefix(line, "--   drop "); ok {
			s.Exec(t, "drop "+statement)
			drops++
		}
	}
	if drops != 2 {
		t.Errorf("%d statements", drops)
	}
}

// A role with the grants can do what the relay does, and nothing else.
func TestGrants(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	role := "Role " + s.Name
	s.Exec(t, "create role "+sql.Quote(role))
	conn := connect(t, s)
	t.Cleanup(func() {
		ctx := context.Background()
		for _, statement := range []string{"reset role", "drop owned by " + sql.Quote(role), "drop role " + sql.Quote(role)} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
		_ = conn.Close(ctx)
	})
	plain, deleting := sql.Table{Schema: s.Name, Name: "plain"}, sql.Table{Schema: s.Name, Name: "deleting"}
	for _, table := range []sql.Table{plain, deleting} {
		s.Exec(t, sql.Schema(table))
		s.Exec(t, "insert into "+table.Quoted()+" (topic, payload) values ('t', '{}')")
	}
	s.Exec(t, sql.Grants(sql.Rights{Table: plain, Role: role, Updates: written}))
	s.Exec(t, sql.Grants(sql.Rights{Table: deleting, Role: role, Updates: written[1:], Delete: true, Txid: "txid"}))
	bare := sql.Table{Schema: s.Name, Name: "it's bare"}
	s.Exec(t, "create table "+bare.Quoted()+" (relayed_at timestamptz)")
	// a column that the table lacks
	s.Exec(t, sql.Grants(sql.Rights{Table: bare, Role: role, Updates: written[:1], Txid: "txid"}))
	exec(t, conn, "set role "+sql.Quote(role))
	for _, c := range []struct {
		statement string
		allowed   bool
	}{
		{"select * from plain", true},
		{"update plain set relayed_at = now(), attempt = attempt + 1, failed_at = now(), last_error = 'x', updated_at = " +
			"now() where " +
			"relayed_at is null", true},
		{"select pg_advisory_lock(1, 2), pg_notify('x', '')", true},
		{"update plain set payload = '1'", false},
		{"update plain set topic = 'x'", false},
		{"update plain set id = gen_random_uuid()", false},
		{"insert into plain (topic, payload) values ('t', '{}')", false},
		{"delete from plain", false},
		{"truncate plain", false},
		{"drop table plain", false},
		{"alter table plain add column x int", false},
		{"create table more (x int)", false},
		{"update deleting set attempt = attempt + 1", true},
		{"update deleting set relayed_at = now()", false},
		{"update deleting set txid = pg_current_xact_id()", true},
		{"update plain set txid = pg_current_xact_id()", false},
		{"delete from deleting", true},
	} {
		_, err := conn.Exec(t.Context(), c.statement)
		pgErr, _ := errors.AsType[*pgconn.PgError](err)
		if c.allowed && err != nil || !c.allowed && (pgErr == nil || pgErr.Code != "42501") {
			t.Errorf("%s: %v", c.statement, err)
		}
	}
}

func TestGrantsAssumePublic(t *testing.T) {
	t.Parallel()
	got := sql.Grants(sql.Rights{
		Table: sql.Table{Name: "outbox_messages"}, Role: "relay",
		Updates: []string{"processed at"},
	})
	want := `grant usage on schema "public" to "relay";
grant select on "public"."outbox_messages" to "relay";
grant update ("processed at") on "public"."outbox_messages" to "relay";
`
	if !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s", got)
	}
}
