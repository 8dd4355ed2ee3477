package publishertest

import (
	"context"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var outageTrials = []trial{
	{"goes through outages that begin at any byte", outages},
	{"goes through lost answers", lostAnswers},
	{"starts while the broker is away", brokerAway},
	{"goes through an outage while nothing is published", idleOutage},
}

// Each round breaks the connections after the given number of bytes of a call.
func outages(t *testing.T, h Harness) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	for _, bytes := range []int64{1, 300, 1500, 9000, 40_000, 150_000} {
		j.accept(messages(20, 20, topic))
		all := messages(1000, 20, topic)
		network.CutAfter(bytes)
		rest := notAccepted(all, j.duringOutage(all))
		network.AwaitCut(t)
		if len(rest) == 0 {
			t.Fatalf("%d messages were accepted over a connection that was cut after %d bytes", len(all), bytes)
		}
		answers := j.duringOutage(rest)
		if left := len(notAccepted(rest, answers)); left != len(rest) {
			t.Fatalf("%d messages were accepted while the broker was away", len(rest)-left)
		}
		network.Restore()
		j.persist(rest)
	}
	j.compare(topic)
}

// duringOutage makes one call while the broker is away or about to be. The call must not wait for the broker's return,
// and an outage must not be attributed to the message or the topic.
func (j *journal) duringOutage(messages []publisher.Message) []error {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), patience)
	defer cancel()
	answers := within(j.t, promptly, "a call during an outage", func() []error { return j.publish(ctx, messages) })
	expect(j.t, answers, publisher.Accepted, publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous)
	return answers
}

// The broker holds messages whose answers are lost with the connection.
func lostAnswers(t *testing.T, h Harness) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	arrived := 0
	for range 3 {
		j.accept(messages(20, 20, topic))
		arrived = len(h.Received(t, topic, arrived+20))
		all := messages(500, 20, topic)
		network.Mute()
		call := j.background(t.Context(), all)
		h.Received(t, topic, arrived+1)
		network.Cut()
		answers := await(t, call)
		expect(t, answers, publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous)
		expectSome(t, answers, publisher.Ambiguous)
		network.Restore()
		j.persist(all)
		arrived = len(h.Received(t, topic, arrived+500))
	}
	j.compare(topic)
}

func brokerAway(t *testing.T, h Harness) {
	network := NewNetwork()
	network.Cut()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	all := messages(100, 10, topic)
	spoiled := message(topic, "key-5") // its turn has not come
	spoiled.Headers = []publisher.Header{{Name: "CC", Value: "x"}}
	for range 3 {
		answers := j.duringOutage(append(all[:100:100], spoiled))
		expect(t, answers[:10], publisher.Unavailable)
		expect(t, answers[10:], publisher.Unavailable, publisher.NotAttempted)
		if scope := publisher.ScopeOf(answers[0]); scope != publisher.ScopeDestination {
			t.Errorf("the scope of an outage is %d, not ScopeDestination", scope)
		}
		j.pingFails(promptly)
	}
	network.Restore()
	j.pingSucceeds()
	j.persist(all)
	j.compare(topic)
}

func idleOutage(t *testing.T, h Harness) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	for range 3 {
		j.accept(messages(20, 4, topic))
		network.Cut()
		j.pingFails(promptly)
		network.Restore()
		j.pingSucceeds()
	}
	for range 3 { // only the next call notices the outage
		network.Cut()
		network.Restore()
		j.persist(messages(20, 4, topic))
	}
	j.compare(topic)
}

// pingFails fails the test unless Ping reports an error within limit.
func (j *journal) pingFails(limit time.Duration) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), limit)
	defer cancel()
	if within(j.t, limit+slack, "Ping", func() error { return j.p.Ping(ctx) }) == nil {
		j.t.Error("Ping reaches a broker that is away")
	}
}

// pingSucceeds waits until Ping succeeds, which must happen soon after the broker is back.
func (j *journal) pingSucceeds() {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), patience)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		err := j.p.Ping(ctx)
		if err == nil {
			return
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			j.t.Fatalf("the broker is back and Ping fails: %v", err)
		}
	}
}
