package e2e

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestLostConnections cuts all of a relay's connections to the database repeatedly: the control connection, the
// listener's, and those that read and mark.
func TestLostConnections(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(topic, 0, manyRows, manyKeys)
		r := startRelay(t, outbox.env(b.url(), "PGAPPNAME="+outbox.Name))
		const faults = 3
		for i := range faults {
			outbox.awaitRelayed(manyRows * (i + 1) / (faults + 2))
			const connections = "from pg_stat_activity where application_name = $1"
			await(t, "control connection and others are there", func() bool {
				return pgtest.Value[int64](t, outbox.Schema, "select count(*) "+connections, outbox.Name) >= 2
			})
			outbox.Exec(t, "select pg_terminate_backend(pid) "+connections, outbox.Name)
		}
		outbox.awaitDrained()
		r.awaitReady()
		checkBounded(t, outbox, b.received(t, topic), faults)
		outbox.checkUnspent(everyRow)
	})
}

// TestFrozenOwner freezes one of two replicas in the middle of a backlog until the other one has taken over, and then
// resumes it. It must not publish the rows that it holds out of order with those of its successor.
func TestFrozenOwner(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(topic, 0, manyRows, manyKeys)
		const ttl = 2 * time.Second
		env := outbox.env(b.url(), "OUTBOX_OWNER_TTL="+ttl.String())
		frozen := startRelay(t, env)
		outbox.awaitRelayed(1)
		other := startRelay(t, env)
		other.awaitReady()
		await(t, "they share the shards", func() bool { return frozen.owns(8) && other.owns(8) })
		outbox.insert(topic, manyRows, manyRows, manyKeys)
		outbox.awaitRelayed(manyRows / 2)
		frozen.Freeze()
		before, since := outbox.count(isRelayed), time.Now()
		if before >= 2*manyRows {
			t.Fatal("frozen too late: nothing was left")
		}
		await(t, "the other takes over", func() bool { return other.owns(16) })
		t.Logf("taken over %v after the owner froze, with %d rows left", time.Since(since).Round(time.Millisecond),
			2*manyRows-before)
		outbox.awaitRelayed(before + 1)
		frozen.Thaw()
		outbox.awaitDrained()
		await(t, "they share the shards again", func() bool { return frozen.owns(8) && other.owns(8) })
		checkBounded(t, outbox, b.received(t, topic), 1)
	})
}
