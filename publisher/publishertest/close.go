package publishertest

import (
	"context"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// closing is how long Close may take: about a second for the broker.
const closing = 3 * time.Second

var closeTrials = []trial{
	{"closes while batches flow", closeInFlow},
	{"closes unused, twice, and answers after that", closeAndAfter},
}

func closeInFlow(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	ended := make(chan []error, 1)
	go func() {
		for {
			answers := j.publish(t.Context(), messages(200, 20, topic))
			if firstError(answers) != nil || t.Context().Err() != nil {
				ended <- answers
				return
			}
		}
	}()
	h.Received(t, topic, 500)
	within(t, closing, "Close", func() { _ = j.p.Close() })
	expect(t, await(t, ended), publisher.Accepted, publisher.Ambiguous, publisher.Unavailable, publisher.NotAttempted)
	j.compare(topic)
}

func closeAndAfter(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	for range 2 {
		within(t, closing, "Close", func() { _ = j.p.Close() })
		within(t, promptly, "Publish after Close", func() {
			expect(t, j.publish(t.Context(), messages(10, 3, topic)), publisher.Unavailable)
		})
	}
	if j.p.Ping(t.Context()) == nil {
		t.Error("a closed publisher says that it can be used")
	}

	used := newJournal(t, h, NewNetwork())
	all := messages(100, 10, topic)
	used.accept(all)
	within(t, closing, "Close", func() {
		if err := used.p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	expect(t, used.publish(t.Context(), messages(10, 3, topic)), publisher.Unavailable)
	used.compare(topic)
}

// background publishes in a goroutine of its own until ctx ends, and hands over the answers.
func (j *journal) background(ctx context.Context, messages []publisher.Message) <-chan []error {
	answers := make(chan []error, 1)
	go func() { answers <- j.publish(ctx, messages) }()
	return answers
}

// await returns what a call of Publish answers that should end by now.
func await(t *testing.T, answers <-chan []error) []error {
	t.Helper()
	select {
	case got := <-answers:
		return got
	case <-time.After(promptly):
		t.Fatal("Publish did not return")
		return nil
	}
}
