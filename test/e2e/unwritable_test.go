package e2e

import (
	"testing"
)

// keyless is a table that can be updated only as long as it is in no publication, as readers of the write-ahead log
// make them.
const keyless = `create table outbox_messages (id bigint generated always as identity, topic text, payload jsonb,
	relayed_at timestamptz);
	create index on outbox_messages (id) where relayed_at is null`

// TestNoReplicaIdentity publishes nothing while no row can be marked, however often the relay is started, and says why
// with the remedy. When the table is put into a publication under a running relay, it publishes nothing more, and no
// row twice.
func TestNoReplicaIdentity(t *testing.T) {
	t.Parallel()
	b, outbox := newKafka(t, endpoint(t, "TEST_KAFKA_URL")), newShape(t, keyless)
	topic, env := b.topic(t), outbox.env(b.url())
	insert := func(n int) {
		outbox.Exec(t, "insert into outbox_messages (topic, payload) select $1, '{}' from generate_series(1, $2::int)", topic,
			n)
	}
	publication := "create publication " + outbox.Name + " for table outbox_messages"
	outbox.Exec(t, publication)
	insert(3000)
	for range 2 {
		r := startRelay(t, env)
		r.awaitNotReady("replica identity", "publication")
		await(t, "the log says it", func() bool {
			return containsAll(r.Log(), []string{"in trouble", "replica identity", "hint: "})
		})
		r.stop()
	}
	if d := doctor(t, env); !d.says("error", "writes", "replica identity full") {
		t.Errorf("%+v", d.worse())
	}
	if n := len(b.received(t, topic)); n > 0 {
		t.Errorf("%d messages were published", n)
	}
	outbox.Exec(t, "drop publication "+outbox.Name)
	r := startRelay(t, env)
	outbox.awaitRelayed(3000)

	outbox.Exec(t, publication)
	insert(10_000)
	r.awaitNotReady("replica identity")
	await(t, "nothing is published any more", func() bool {
		return r.metric(`in_flight_rows{destination="default"}`) != "0"
	})
	published := len(b.received(t, topic))
	insert(1000)
	await(t, "the relay has looked at the table again", func() bool {
		outbox.Exec(t, "select pg_notify('outbox_messages', '')")
		return r.metric(`wakeups_total{source="listen"}`) > "3"
	})
	if now := len(b.received(t, topic)); now > published+1000 { // one batch may have been under way
		t.Errorf("%d messages were published after %d could not be marked", now-published, published)
	}
	outbox.Exec(t, "alter table outbox_messages replica identity full")
	outbox.awaitRelayed(14_000)
	r.stop()
	if n := len(b.received(t, topic)); n != 14_000 {
		t.Errorf("%d messages for 14,000 rows", n)
	}
	outbox.Exec(t, "drop publication "+outbox.Name)
}
