package e2e

import (
	"testing"
	"time"
)

// TestReplicas lets two replicas share an outbox and kills the one that relays, twice: the other one takes
// over, nothing is lost and the order holds.
func TestReplicas(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		env := outbox.env(b.url())
		replicas := []*relay{startRelay(t, env), startRelay(t, env)}
		for _, r := range replicas {
			r.awaitReady()
		}
		await(t, "one of them is active and knows of both", func() bool {
			return replicas[0].active() != replicas[1].active() && replicas[0].metric("replicas") == "2" && replicas[1].metric("replicas") == "2"
		})
		const kills = 2
		for kill := range kills {
			outbox.insert(topic, kill*manyRows, manyRows, manyKeys)
			outbox.awaitRelayed(kill*manyRows + manyRows/4)
			active := 0
			if replicas[1].active() {
				active = 1
			}
			if standby := replicas[1-active]; standby.active() {
				t.Fatal("both replicas relay")
			}
			replicas[active].kill()
			killed := time.Now()
			before := outbox.count(isRelayed)
			if before >= (kill+1)*manyRows {
				t.Fatal("killed too late: nothing was left")
			}
			await(t, "the standby goes on", func() bool { return outbox.count(isRelayed) > before })
			took := time.Since(killed)
			t.Logf("killed with %d rows left; the standby's first rows were marked after %v", (kill+1)*manyRows-before, took.Round(time.Millisecond))
			if took > 5*time.Second {
				t.Errorf("the takeover took %v", took)
			}
			replicas[active] = startRelay(t, env)
			replicas[active].awaitReady()
		}
		outbox.awaitDrained()
		duplicates := check(t, outbox, b.received(t, topic))
		t.Logf("%d duplicates after %d kills", duplicates, kills)
		if duplicates > kills*maxInFlight {
			t.Errorf("%d duplicates, more than the rows in flight at %d kills", duplicates, kills)
		}
	})
}

// TestRollingRestart replaces both replicas, one after the other, while rows are relayed: no row is
// published twice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, outbox := b.topic(t), newTable(t)
	env := outbox.env(b.url())
	old := []*relay{startRelay(t, env), startRelay(t, env)}
	for _, r := range old {
		r.awaitReady()
	}
	outbox.insert(topic, 0, manyRows, manyKeys)
	outbox.awaitRelayed(1)
	for _, r := range old {
		startRelay(t, env).awaitReady()
		r.stop()
	}
	outbox.awaitDrained()
	if duplicates := check(t, outbox, b.received(t, topic)); duplicates > 0 {
		t.Errorf("%d duplicates", duplicates)
	}
}
