package e2e

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestIdleOwnerAsksLittle counts the transactions of an owner whose doorbell works, in a database of its own. Soon it
// makes fewer than eight a second for everything that it does: looks at the table and the catalogue, its ownership, its
// listener. By hand they were three to four. Polls every 50 ms would be twenty.
func TestIdleOwnerAsksLittle(t *testing.T) {
	t.Parallel()
	outbox := &table{Schema: pgtest.NewDatabase(t), t: t}
	env := outbox.env("stdout:")
	code, ddl, problems := runCommand(t, env, "schema", "--doorbell")
	if code != 0 {
		t.Fatalf("schema --doorbell: status %d: %s", code, problems)
	}
	outbox.Exec(t, ddl)
	elsewhere := pgtest.New(t) // what asks for the numbers must not count
	name := pgtest.Value[string](t, outbox.Schema, "select current_database()::text")
	outbox.Pool.Close()
	r := startRelay(t, env)
	r.awaitReady()
	transactions := func() int {
		return pgtest.Value[int](t, elsewhere,
			"select (xact_commit + xact_rollback)::int from pg_stat_database where datname = '"+name+"'")
	}
	// The server adds a session's numbers about once a second. A slow machine makes fewer transactions, not more.
	const some, most = 24, 8 // transactions, and per second
	await(t, "the owner is idle", func() bool {
		before, began := transactions(), time.Now()
		await(t, "some transactions", func() bool { return transactions() >= before+some })
		took := time.Since(began)
		t.Logf("%d transactions in %v", some, took.Round(time.Millisecond))
		return took >= some*time.Second/most
	})
	r.stop()
}
