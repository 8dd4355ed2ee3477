package e2e

import (
	"testing"
	"time"
)

// TestReadySoon measures the time from the start until the relay is ready and until the first row, with all services
// running. The bound is generous, for machines that are busy.
func TestReadySoon(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(topic, 0, 1, 1)
		r := startRelay(t, outbox.env(b.url()))
		ready := r.awaitReady()
		outbox.awaitDrained()
		t.Logf("ready after %v, first row after %v", ready.Round(time.Millisecond),
			time.Since(r.Started).Round(time.Millisecond))
		if ready > 10*time.Second {
			t.Errorf("ready only after %v", ready)
		}
	})
}

// TestAnyWeather starts a relay before its broker's topic and its table exist.
func TestAnyWeather(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := uniqueTopic(), newShape(t, "select 1")
		r := startRelay(t, outbox.env(b.url()))
		r.awaitNotReady("does not exist")
		outbox.Exec(t, recommended(t))
		outbox.insert(topic, 0, 100, 10)
		await(t, "the rows are held", func() bool {
			held := r.metric(`rows_held{destination="default",reason="topology"}`)
			return held != "" && held != "0"
		})
		b.create(t, topic)
		outbox.awaitDrained()
		check(t, outbox, b.received(t, topic))
	})
}
