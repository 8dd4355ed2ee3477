package e2e

import (
	"testing"
)

// pooled returns the settings for a table whose rows are read and marked through PgBouncer in transaction mode.
// PgBouncer accepts no startup parameter such as the search path, so the table is named with its schema.
func (tb *table) pooled(publishURL string, more ...string) settings {
	tb.t.Helper()
	return append(settings{
		"OUTBOX_DATABASE_URL=" + endpoint(tb.t, "TEST_PGBOUNCER_URL"), "OUTBOX_TABLE=" + tb.Name + ".outbox_messages",
		"OUTBOX_PUBLISH_URL=" + publishURL,
	}, more...)
}

// TestPooler relays through PgBouncer 1.18, which keeps no prepared statement and no setting of a session: two replicas
// in order, a row that fails, a row that waits, the doorbell's wake-up, a clean stop.
func TestPooler(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, missing, outbox := b.topic(t), uniqueTopic(), newTable(t)
	env := outbox.pooled(b.url(), "OUTBOX_DATABASE_DIRECT_URL="+endpoint(t, "TEST_DATABASE_URL"),
		"OUTBOX_LISTEN_CHANNEL="+outbox.Name)
	replicas := []*relay{startRelay(t, env), startRelay(t, env)}
	for _, r := range replicas {
		r.awaitReady()
		await(t, "it listens", func() bool { return r.metric("listener_up") == "1" })
		await(t, "it owns its share", func() bool { return r.owns(8) })
	}
	outbox.insert(topic, 0, manyRows, manyKeys)
	outbox.Exec(t, `insert into outbox_messages (topic, key, payload, headers) values ($1, 'bad', '{}',
		'{"message-id": "mine"}')`, topic)
	outbox.Exec(t, `insert into outbox_messages (topic, key, payload) values ($1, 'held', '{"n": 0}')`, missing)
	await(t, "all but the held row are settled", func() bool { return outbox.count(isPending) == 1 })
	if failed := outbox.count(isFailed + " and attempt = 2 and last_error is not null"); failed != 1 {
		t.Errorf("%d rows have failed, want 1", failed)
	}
	b.create(t, missing)
	outbox.awaitDrained()
	replicas[0].stop()
	outbox.insert(topic, manyRows, 1000, manyKeys)
	outbox.awaitDrained()
	for _, r := range replicas[1:] {
		if status, body := r.get("/readyz?verbose"); status != 200 {
			t.Errorf("/readyz answers %d: %s", status, body)
		}
		r.stop()
	}
	check(t, outbox, append(b.received(t, topic), b.received(t, missing)...))
	outbox.checkUnspent(isRelayed)
	for _, r := range replicas {
		if warnings := r.records("WARN"); len(warnings) > 2 { // the missing topic, the row that failed
			t.Errorf("warnings: %v", warnings)
		}
	}
}

// TestPoolerAlone: ownership through a transaction pooler would have no meaning. The relay reports this, with the
// remedy, and publishes nothing.
func TestPoolerAlone(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("orders", 0, 100, 10)
	r := startRelay(t, outbox.pooled("stdout:"))
	r.awaitNotReady("transaction pooler", "OUTBOX_DATABASE_DIRECT_URL")
	await(t, "the log says it", func() bool {
		return containsAll(r.Log(), []string{"transaction pooler", "OUTBOX_DATABASE_DIRECT_URL"})
	})
	if relayed := outbox.count(isRelayed); relayed > 0 {
		t.Errorf("%d rows were relayed", relayed)
	}
	if lines := len(r.records("WARN")); lines > 3 {
		t.Errorf("%d warnings:\n%s", lines, r.Log())
	}
	r.stop()
}
