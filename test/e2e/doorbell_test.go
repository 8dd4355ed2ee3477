package e2e

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// TestDoorbellOfAFullQueue fills the server's queue of notifications, which belongs to all databases, as a session does
// that listens and has a transaction open: no transaction of the application fails, rows are relayed by polling, and
// the relay and doctor say what to do. When the session has ended, the doorbell rings again. Where transactions are
// prepared, it never rings.
func TestDoorbellOfAFullQueue(t *testing.T) {
	t.Parallel()
	pg := newServerOf(t, endpoint(t, "TEST_DATABASE_URL_OTHER"))
	pg.start("max_notify_queue_pages=64")
	outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(pg.addr), Name: "public", Pool: pg.pool(pg.addr)}, t: t}
	defer outbox.Pool.Close()
	outbox.Exec(t, recommended(t)+sql.Doorbell(sql.Table{Name: "outbox_messages"}, "outbox_messages"),
		pgx.QueryExecModeSimpleProtocol)
	const insert = `insert into outbox_messages (topic, payload) values ('orders', '{}')`
	env := outbox.env("stdout:")
	r := startRelay(t, env)
	r.awaitReady()
	rung := func() bool {
		outbox.Exec(t, insert)
		n := r.metric(`wakeups_total{source="listen"}`)
		return n != "" && n != "0"
	}
	await(t, "the doorbell rings", rung)
	asleep, err := pgx.Connect(t.Context(), hostsURL(pg.addr))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"listen x", "begin", "select 1"} {
		if _, err := asleep.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the queue is full", func() bool {
		_, err := outbox.Pool.Exec(t.Context(), "select pg_notify('y', repeat('y', 7000) || i) from generate_series(1, 10) i")
		return err != nil && strings.Contains(err.Error(), "too many notifications")
	})
	await(t, "the relay does not trust the doorbell", func() bool {
		outbox.Exec(t, insert) // none of these fails
		return r.metric("listener_up") == "0"
	})
	outbox.awaitDrained()
	if !containsAll(r.Log(), []string{"cannot listen, polling continues", "queue of notifications is half full"}) {
		t.Errorf("the log does not say it:\n%s", r.Log())
	}
	if code, _, problems := runCommand(t, env, "replay", "--topic", "orders", "--yes"); code != 0 {
		t.Errorf("replay: status %d: %s", code, problems)
	}
	if err := asleep.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the relay listens again", func() bool { return r.metric("listener_up") == "1" })
	r.stop()
}

// TestDoorbellAndPreparedTransactions: a transaction that has notified cannot be prepared, so the doorbell's function
// does not notify on a server where transactions may be prepared.
func TestDoorbellAndPreparedTransactions(t *testing.T) {
	t.Parallel()
	pg := newServer(t, nil)
	pg.start("max_prepared_transactions=5")
	outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(pg.addr), Name: "public", Pool: pg.pool(pg.addr)}, t: t}
	defer outbox.Pool.Close()
	outbox.Exec(t, recommended(t)+sql.Doorbell(sql.Table{Name: "outbox_messages"}, "outbox_messages"),
		pgx.QueryExecModeSimpleProtocol)
	r := startRelay(t, outbox.env("stdout:"))
	await(t, "the relay wants to be rung", func() bool {
		return pgtest.Value[bool](t, outbox.Schema,
			"select exists (select from pg_locks where locktype = 'advisory' and classid = "+
				sql.DoorbellClass+")")
	})
	outbox.Exec(t, "begin; insert into outbox_messages (topic, payload) values ('orders', '{}'); prepare transaction 'a'",
		pgx.QueryExecModeSimpleProtocol)
	outbox.Exec(t, "commit prepared 'a'")
	outbox.awaitRelayed(1)
	if d := doctor(t, outbox.env("stdout:")); !d.says("ok", "doorbell", "max_prepared_transactions") {
		t.Errorf("%+v", d.worse())
	}
	r.stop()
}
