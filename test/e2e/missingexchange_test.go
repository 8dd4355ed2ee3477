package e2e

import (
	"strings"
	"testing"
)

// TestMissingExchange: one row whose exchange does not exist is held, alone among 300 good ones.
func TestMissingExchange(t *testing.T) {
	t.Parallel()
	b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	topic, missing, outbox := b.topic(t), uniqueTopic(), newTable(t)
	outbox.Exec(t, "alter table outbox_messages add column exchange text not null default ''")
	outbox.insert(topic, 0, 50, 300)
	outbox.Exec(t, "insert into outbox_messages (topic, key, payload, exchange) values ($1, 'bad', '{}', $2)", topic,
		missing)
	outbox.insert(topic, 50, 250, 300)
	r := startRelay(t, outbox.env(b.url(), "OUTBOX_AMQP_EXCHANGE={exchange}"))
	outbox.awaitRelayed(300)
	await(t, "the log names the missing exchange", func() bool { return strings.Contains(r.Log(), missing) })
	if pending := outbox.count(isPending + " and attempt = 1 and last_error is null"); pending != 1 {
		t.Errorf("%d rows wait untouched, want the one", pending)
	}
	outbox.Exec(t, "update outbox_messages set exchange = '' where exchange <> ''")
	outbox.awaitDrained()
	check(t, outbox, b.received(t, topic))
}
