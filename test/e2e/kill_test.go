package e2e

import "testing"

// manyRows rows keep a relay busy for long enough to be killed in the middle. They are on manyKeys keys.
const (
	manyRows = 30_000
	manyKeys = 200
)

// maxInFlight is the default of OUTBOX_MAX_IN_FLIGHT.
const maxInFlight = 4096

// TestKill kills a relay in the middle of a backlog, as kill -9 does, and starts another one. Nothing is lost, the
// order holds, and at most the rows that were in flight arrive twice.
func TestKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(topic, 0, manyRows, manyKeys)

		first := startRelay(t, outbox.env(b.url()))
		outbox.awaitRelayed(manyRows / 4)
		first.Kill()
		relayed := outbox.count(isRelayed)
		if relayed >= manyRows {
			t.Fatal("killed too late: nothing was left")
		}
		published := len(b.received(t, topic))

		startRelay(t, outbox.env(b.url()))
		outbox.awaitDrained()
		t.Logf("killed with %d of %d rows marked and %d published", relayed, manyRows, published)
		checkBounded(t, outbox, b.received(t, topic), 1)
		outbox.checkUnspent(everyRow)
	})
}
