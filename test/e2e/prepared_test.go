package e2e

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestPreparedTransactions inserts rows in transactions that are prepared for a two-phase commit. Such transactions no
// longer belong to a session and survive a restart of the server. They are committed when younger rows have been
// relayed for longer than recent reads reach back, one of them after a crash of the server. Every committed row arrives
// once, and rows that were rolled back never do. The order of each key is kept, except for rows that arrive after a
// younger row of their key that was already relayed. These rows are counted.
func TestPreparedTransactions(t *testing.T) {
	t.Parallel()
	const keys, setting = 10, "max_prepared_transactions=10"
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic := b.topic(t)
	database := newServer(t, nil)
	database.start(setting)
	pool := database.pool(database.addr)
	defer pool.Close()
	outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(database.addr), Name: "public", Pool: pool}, t: t}
	outbox.Exec(t, recommended(t))
	n := 0
	insert := func(rows int, key string) string { // keys key0, key1, ... in turns
		n += rows
		return fmt.Sprintf(`insert into outbox_messages (topic, key, payload) select '%s', '%s' || i %% %d,
			jsonb_build_object('n', i) from generate_series(%d, %d) i order by i`, topic, key, keys, n-rows, n-1)
	}
	// Each row is written under a savepoint, and thus with a separate transaction number.
	prepare := func(name, key string) {
		outbox.Exec(t, "begin; savepoint s; "+insert(keys, key)+"; release s; "+insert(keys, key)+
			fmt.Sprintf("; prepare transaction '%s'", name))
	}
	younger := func(key string) { // until the prepared rows are old
		await(t, "reads of recent rows reach back no further than the prepared transactions", func() bool {
			outbox.Exec(t, insert(keys, key))
			outbox.awaitDrained()
			return pgtest.Value[bool](t, outbox.Schema,
				"select max(clock_timestamp() - prepared) > interval '8 s' from pg_prepared_xacts")
		})
	}
	r := startRelay(t, outbox.env(b.url()))
	outbox.Exec(t, insert(100, "k"))
	outbox.awaitDrained()

	prepare("overtaken", "k")
	prepare("apart", "a")
	prepare("rolled back", "k")
	prepare("crashed", "c")
	younger("k")
	outbox.Exec(t, "commit prepared 'overtaken'")
	outbox.awaitDrained()
	if counted := r.metric("order_violations_total"); counted != fmt.Sprint(2*keys) {
		t.Errorf("%s rows have been counted that came after younger ones, want %d", counted, 2*keys)
	}
	outbox.Exec(t, "commit prepared 'apart'")
	outbox.Exec(t, insert(keys, "a"))
	outbox.Exec(t, "rollback prepared 'rolled back'")
	outbox.awaitDrained()

	database.crash()
	database.start(setting)
	pool.Reset()
	younger("o")
	outbox.Exec(t, "commit prepared 'crashed'")
	outbox.Exec(t, insert(keys, "c"))
	outbox.awaitDrained()
	outbox.checkUnspent(everyRow)
	r.stop()

	wanted, seen, last := outbox.committed(), map[string]bool{}, map[string]int{}
	for _, d := range b.received(t, topic) {
		if seen[d.id] || !wanted[d.id] {
			t.Errorf("message %s of key %s, seen %v, committed %v", d.id, d.key, seen[d.id], wanted[d.id])
		}
		seen[d.id] = true
		if n := d.number(t); d.key[0] != 'k' {
			if n < last[d.key] {
				t.Errorf("key %s: number %d arrived after %d", d.key, n, last[d.key])
			}
			last[d.key] = n
		}
	}
	if len(seen) != len(wanted) {
		t.Errorf("%d of %d messages have arrived", len(seen), len(wanted))
	}
}
