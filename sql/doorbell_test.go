package sql_test

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Whatever the doorbell's function meets while a relay sleeps, the application's transaction neither fails nor waits,
// and its own locks stay as they are.
func TestDoorbellHarmsNoTransaction(t *testing.T) {
	t.Parallel()
	const lock = "(" + sql.DoorbellClass + ", 'outbox_messages'::regclass::integer)"
	const insert = "insert into outbox_messages (topic, payload) values ('t', '{}');"
	for name, test := range map[string]struct {
		meets string // run by the owner
		other string // run by another session, which stays open
		begin string // run by the application, before it inserts
		after string // the number of advisory locks that the application then holds
	}{
		"a sleeping relay":       {after: "0"},
		"another session's lock": {other: "select pg_advisory_lock" + lock, after: "0"},
		"the application's lock": {begin: "select pg_advisory_lock" + lock + ";", after: "1"},
		"its own shared lock":    {begin: "select pg_advisory_lock_shared" + lock + ";", after: "1"},
		"a lock of the class":    {begin: "select pg_advisory_xact_lock(" + sql.DoorbellClass + ", 1);", after: "1"},
		"no right to lock": {
			meets: "revoke execute on function pg_try_advisory_lock(integer, integer) from public",
			after: "0",
		},
		"no right to notify": {meets: "revoke execute on function pg_notify(text, text) from public", after: "0"},
		"no right to look": {
			meets: "revoke execute on function pg_notification_queue_usage() from public",
			after: "0",
		},
		"a channel without a name":   {meets: sql.Doorbell(messages, ""), after: "0"},
		"a channel that is too long": {meets: sql.Doorbell(messages, strings.Repeat("c", 64)), after: "0"},
		"a savepoint":                {begin: "savepoint a;" + insert + "rollback to a;", after: "0"},
		"a serializable transaction": {begin: "set transaction isolation level serializable;", after: "0"},
		"a search path that shadows": {
			meets: "create function pg_notify(text, text) returns void language sql as 'select 1/0'; create function " +
				"pg_try_advisory_lock(integer, integer) returns boolean language sql as 'select 1/0 = 1'",
			begin: "set search_path = public, pg_catalog;", after: "0",
		},
		"settings of other programs": {
			begin: "set bytea_output = escape; set standard_conforming_strings = off; set datestyle = german;", after: "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.NewDatabase(t)
			s.Exec(t, sql.Schema(messages)+sql.Doorbell(messages, "c"))
			role := s.NewRole(t)
			s.Exec(t, "grant insert on outbox_messages to "+role+"; grant all on schema public to "+role)
			s.Exec(t, test.meets)
			relay, other := connect(t, s), connect(t, s)
			exec(t, relay, sql.Text("doorbell_pulse.sql", map[string]string{"class": sql.DoorbellClass}), true, messages.Quoted())
			if test.other != "" {
				exec(t, relay, "select pg_advisory_unlock_all()")
				exec(t, other, test.other)
			}
			if strings.Contains(test.begin, "advisory_lock(") {
				exec(t, relay, "select pg_advisory_unlock_all()")
			}
			writer := connect(t, &pgtest.Schema{URL: s.URLAs(t, role)})
			exec(t, writer, "begin; set local statement_timeout = '10s'; "+test.begin+insert+"commit")
			var held string
			if err := writer.QueryRow(t.Context(),
				`select count(*)::text from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`).
				Scan(&held); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(test.begin, "xact") {
				held = test.after // released at the end of the transaction
			}
			if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages"); n != 1 || held != test.after {
				t.Errorf("%d rows, %s locks, want %s", n, held, test.after)
			}
		})
	}
}
