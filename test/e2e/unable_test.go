package e2e

import (
	"net/url"
	"testing"
	"time"
)

// TestReplicaThatCannotPublish runs two replicas, one of which has a wrong password for the broker. It reports this, is
// not ready, and releases its shards to the other one, so that every row is relayed.
func TestReplicaThatCannotPublish(t *testing.T) {
	t.Parallel()
	b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	topic, outbox := b.topic(t), newTable(t)
	wrong, err := url.Parse(b.url())
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword("stranger", "hunter2")
	const ttl = 2 * time.Second
	bad := startRelay(t, outbox.env(wrong.String(), "OUTBOX_OWNER_TTL="+ttl.String()))
	bad.awaitNotReady("destination default", "refuses the login of user")
	await(t, "alone it owns everything", func() bool { return bad.owns(16) })
	outbox.insert(topic, 0, 1000, 50)

	good := startRelay(t, outbox.env(b.url(), "OUTBOX_OWNER_TTL="+ttl.String()))
	took := await(t, "the other one takes everything", func() bool { return good.owns(16) && bad.owns(0) })
	t.Logf("shards were given over after %v", took.Round(time.Millisecond))
	bad.awaitNotReady("destination default", "refuses the login of user", "cannot publish")
	good.awaitReady()
	outbox.awaitDrained()
	if unowned := good.metric("shards_unowned"); unowned != "0" {
		t.Errorf("shards_unowned is %q", unowned)
	}
	check(t, outbox, b.received(t, topic))
	outbox.checkUnspent(everyRow)
	good.stop()
	await(t, "without another one it takes them again, and waits", func() bool { return bad.owns(16) })
	bad.awaitNotReady("destination default")
	bad.stop()
}
