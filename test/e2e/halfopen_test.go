package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestForgottenBrokerConnections has a firewall forget the connections to the broker, under load. Rows are relayed on
// new connections soon after the publish timeout, and none twice beyond the bound.
func TestForgottenBrokerConnections(t *testing.T) {
	t.Parallel()
	for _, b := range []broker{newNATS(t, endpoint(t, "TEST_NATS_URL")), newRabbit(t, endpoint(t, "TEST_AMQP_URL"))} {
		t.Run(b.name(), func(t *testing.T) {
			t.Parallel()
			firewall, through := pgtest.NewFirewall(t, b.url())
			forget(t, firewall, b, through)
		})
	}
	t.Run("kafka", func(t *testing.T) { // whose brokers are found by the addresses that they advertise
		t.Parallel()
		var firewall *pgtest.Firewall
		c := newKafkaNode(t, func(address string) (advertised string) {
			firewall, advertised = pgtest.NewFirewall(t, "kafka://"+address)
			return strings.TrimPrefix(advertised, "kafka://")
		})
		forget(t, firewall, newKafka(t, c.address), c.address)
	})
}

// forget makes the firewall forget all connections while rows are relayed to an address behind it.
func forget(t *testing.T, firewall *pgtest.Firewall, b broker, through string) {
	topic, outbox := b.topic(t), newTable(t)
	if k, ok := b.(*kafkaBroker); ok {
		k.client.Transport.(*kafka.Transport).CloseIdleConnections() // the test's connections lead through the firewall too
	}
	r := startRelay(t, outbox.env(through, "OUTBOX_PUBLISH_TIMEOUT=3s"))
	outbox.insert(topic, 0, manyRows, manyKeys)
	outbox.awaitRelayed(manyRows / 10)
	if firewall.Forget(1000, true, true) == 0 {
		t.Fatal("no connection goes through the firewall")
	}
	outbox.insert(topic, manyRows, 100, manyKeys)
	var longest time.Duration // longest time without a relayed row
	for left, since := outbox.count(isPending), time.Now(); left > 0; left, since = outbox.count(isPending), time.Now() {
		await(t, "further rows are relayed", func() bool { return outbox.count(isPending) < left })
		longest = max(longest, time.Since(since))
	}
	t.Logf("rows flowed again after %v", longest.Round(time.Millisecond))
	if longest > 10*time.Second {
		t.Error("that is too long")
	}
	checkBounded(t, outbox, b.received(t, topic), 1)
	outbox.checkUnspent(everyRow)
	r.stop()
}
