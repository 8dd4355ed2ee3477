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
	{"pings", pings},
}

func endedBefore(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for range 2 { // not connected at first, connected then
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

// Wherever the end of the call hits, its messages are published again as their answers tell.
func endedAmid(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	j.accept(messages(20, 3, topic))
	for _, after := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, 300 * time.Microsecond,
		time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond} {
		all := messages(300, 20, topic)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		answers := within(t, promptly, "a call that ends", func() []error { return j.publish(ctx, all) })
		cancel()
		expect(t, answers, publisher.Accepted, publisher.NotAttempted, publisher.Ambiguous)
		j.persist(notAccepted(all, answers))
	}
	j.compare(topic)
}

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
