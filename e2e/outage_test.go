package e2e

import (
	"testing"
	"time"
)

// outage is how long the brokers are away.
const outage = 20 * time.Second

// TestOutage stops each broker for 20 s while rows come in: no attempt is spent, nothing fails, the
// process lives and says what is wrong, and rows flow soon after the broker is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	set := newServices(t, "outage", 1900)
	set.run("up", "kafka", "nats", "rabbitmq")
	type pair struct {
		broker  broker
		service string
		topic   string
		outbox  *table
		relay   *relay
	}
	var pairs []*pair
	for _, b := range []broker{newKafka(t, set.address("TEST_KAFKA_URL")), newNATS(t, set.address("TEST_NATS_URL")), newRabbit(t, set.address("TEST_AMQP_URL"))} {
		p := &pair{broker: b, service: b.name(), topic: b.topic(t), outbox: newTable(t)}
		p.relay = startRelay(t, p.outbox.env(b.url()))
		p.relay.awaitReady()
		pairs = append(pairs, p)
	}
	const rows, keys = 2000, 50
	for _, p := range pairs {
		p.outbox.insert(p.topic, 0, rows, keys)
		p.outbox.awaitDrained()
		set.run("stop", p.service)
		p.outbox.insert(p.topic, rows, rows, keys)
	}
	stopped := time.Now()
	for _, p := range pairs {
		p.relay.awaitNotReady("destination default")
		if up := p.relay.metric(`destination_up{destination="default"}`); up != "0" {
			t.Errorf("%s: destination_up is %q during the outage", p.service, up)
		}
	}
	<-time.After(time.Until(stopped.Add(outage)))
	for _, p := range pairs {
		p.relay.mustRun()
		if pending := p.outbox.count(isPending); pending != rows {
			t.Errorf("%s: %d rows are pending during the outage, want %d", p.service, pending, rows)
		}
		if lines := len(p.relay.records("INFO")); lines > 40 {
			t.Errorf("%s: %d lines of log until the end of the outage", p.service, lines)
		}
	}
	for _, p := range pairs {
		set.run("up", p.service)
		ready := time.Now()
		await(t, p.service+": rows flow", func() bool { return p.outbox.count(isRelayed) > rows })
		took := time.Since(ready)
		p.outbox.awaitDrained()
		t.Logf("%s: rows flowed %v after it was ready again, all within %v", p.service, took.Round(time.Millisecond), time.Since(ready).Round(time.Millisecond))
		if took > 5*time.Second {
			t.Errorf("%s: rows flowed only %v after it was ready", p.service, took)
		}
		p.relay.awaitReady()
		p.outbox.checkUnspent(everyRow)
		checkBounded(t, p.outbox, p.broker.received(t, p.topic), 1)
		p.relay.stop()
	}
}
