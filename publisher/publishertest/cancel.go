package publishertest

import (
	"context"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var cancelTrials = []trial{
	{"sends nothing when the call has ended before", endedBefore},
	{"answers for every message of a call that ends amid", endedAmid},
	{"sends nothing after a stop", stoppedBefore},
	{"waits for its answers after a stop", stoppedAmid},
	{"pings", pings},
}

func endedBefore(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for range 2 { // first not connected, then connected
		for _, ctx := range []context.Context{cancelled, late} {
			answers := within(t, promptly, "a call that has ended", func() []error {
				return j.publish(ctx, messages(20, 3, topic))
			})
			expect(t, answers, publisher.NotAttempted)
		}
		j.accept(messages(20, 3, topic))
	}
	j.compare(topic)
}

// Wherever in the call ctx ends, the messages are published again according to their answers.
func endedAmid(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	j.accept(messages(20, 3, topic))
	for _, after := range []time.Duration{
		10 * time.Microsecond, 100 * time.Microsecond, 300 * time.Microsecond,
		time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
	} {
		all := messages(300, 20, topic)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		answers := within(t, promptly, "a call that ends", func() []error { return j.publish(ctx, all) })
		cancel()
		expect(t, answers, publisher.Accepted, publisher.NotAttempted, publisher.Ambiguous)
		j.persist(notAccepted(all, answers))
	}
	j.compare(topic)
}

func stoppedBefore(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	stop := make(chan struct{})
	close(stop)
	for range 2 { // first not connected, then connected
		answers := within(t, promptly, "a call that is stopped", func() []error {
			return j.publish(publisher.WithStop(t.Context(), stop), messages(20, 3, topic))
		})
		expect(t, answers, publisher.NotAttempted)
		j.accept(messages(20, 3, topic))
	}
	j.compare(topic)
}

// stoppedAmid publishes more messages of one key than fit into one request. The call is stopped while the first answers
// are in transit. No outcome may be unknown, and no further request may be sent.
func stoppedAmid(t *testing.T, h Harness) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	j.accept(messages(1, 1, topic))
	h.Received(t, topic, 1)
	all := messages(5000, 1, topic)
	_, without := h.(Networkless)
	if !without {
		network.Mute()
	}
	stop := make(chan struct{})
	call := j.background(publisher.WithStop(t.Context(), stop), all)
	h.Received(t, topic, 2)
	close(stop)
	network.Restore()
	answers := within(t, patience, "a call that is stopped", func() []error { return <-call })
	expect(t, answers, publisher.Accepted, publisher.NotAttempted)
	expectSome(t, answers, publisher.Accepted)
	if _, whole := h.(wholeCalls); !whole && !without {
		expectSome(t, answers, publisher.NotAttempted)
	}
	left := notAccepted(all, answers)
	j.persist(left[:min(len(left), 20)])
	j.compare(topic)
}

// wholeCalls is implemented by the harness of a publisher that sends a call as a whole, whatever its size.
type wholeCalls interface{ wholeCalls() }

func pings(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 2 {
		if err := j.p.Ping(ctx); err != nil {
			t.Errorf("ping: %v", err)
		}
		j.accept(messages(10, 2, topic))
	}
	j.compare(topic)
}
