package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// TestReplicas runs two replicas of one outbox and kills one of them, twice. The other one takes over, nothing is lost
// and the order holds. With one shard, one of them relays and the other is a standby.
func TestReplicas(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 16} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b broker) { killReplicas(t, b, shards) })
		})
	}
}

func killReplicas(t *testing.T, b broker, shards int) {
	topic, outbox := b.topic(t), newTable(t)
	env := append(outbox.env(b.url()), "OUTBOX_SHARDS="+strconv.Itoa(shards))
	replicas := []*relay{startRelay(t, env), startRelay(t, env)}
	for _, r := range replicas {
		r.awaitReady()
	}
	half := shards / 2
	shared := func() bool {
		return replicas[0].metric("replicas") == "2" && replicas[1].metric("replicas") == "2" &&
			(replicas[0].owns(half) && replicas[1].owns(shards-half) || replicas[0].owns(shards-half) && replicas[1].owns(half))
	}
	const kills = 2
	for kill := range kills {
		await(t, "they share the shards", shared)
		const first = manyRows / 2
		outbox.insert(topic, kill*manyRows, first, manyKeys)
		outbox.awaitRelayed(kill*manyRows + manyRows/4)
		victim := kill
		if replicas[1-kill].owns(shards) {
			victim = 1 - kill // of an active replica and a standby, the active one
		}
		replicas[victim].Kill()
		killed := time.Now()
		// whatever was left, these rows wait for the other replica
		outbox.insert(topic, kill*manyRows+first, manyRows-first, manyKeys)
		await(t, "the other one takes over", func() bool { return replicas[1-victim].owns(shards) })
		took := time.Since(killed)
		t.Logf("the other one owned everything after %v", took.Round(time.Millisecond))
		if took > 10*time.Second {
			t.Errorf("the takeover took %v", took)
		}
		replicas[victim] = startRelay(t, env)
		replicas[victim].awaitReady()
	}
	outbox.awaitDrained()
	checkBounded(t, outbox, b.received(t, topic), kills)
}

// TestRollingRestart replaces both replicas, one after the other, while rows are relayed. No row is published twice.
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
	check(t, outbox, b.received(t, topic))
}
