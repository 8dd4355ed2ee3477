package e2e

import (
	"testing"
	"time"
)

// TestStop stops a relay with SIGTERM in the middle of a backlog and starts another one, several times. No row is
// published twice.
func TestStop(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(topic, 0, manyRows, manyKeys)
		const stops = 3
		for i := range stops {
			r := startRelay(t, outbox.env(b.url()))
			r.awaitReady() // all rows may already be relayed, and a process that has just started does not handle signals yet
			outbox.awaitRelayed(manyRows * (i + 1) / (stops + 2))
			took := r.stop()
			relayed := outbox.count(isRelayed)
			t.Logf("stopped within %v with %d of %d rows marked", took.Round(time.Millisecond), relayed, manyRows)
			if relayed >= manyRows {
				t.Fatal("stopped too late: nothing was left")
			}
			if took > 10*time.Second {
				t.Errorf("the stop took %v", took)
			}
		}
		last := startRelay(t, outbox.env(b.url()))
		outbox.awaitDrained()
		last.stop()
		check(t, outbox, b.received(t, topic))
		outbox.checkUnspent(everyRow)
	})
}
