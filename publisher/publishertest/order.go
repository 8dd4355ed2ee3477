package publishertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var orderTrials = []trial{
	{"keeps the order of many keys over many batches", manyKeys},
	{"keeps the order of one key alone", oneKey},
	{"takes several topics in one call", severalTopics},
	{"takes messages without a key", withoutKey},
	{"takes calls of several goroutines", concurrentCallers},
	{"takes calls of one message and of none", smallCalls},
}

func manyKeys(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	j.accept(messages(5000, 50, topic))
	j.compare(topic)
}

func oneKey(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	j.accept(messages(300, 1, topic))
	j.compare(topic)
}

// Five keys over three topics: each key uses all topics.
func severalTopics(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topics := []string{h.Topic(t), h.Topic(t), h.Topic(t)}
	j.accept(messages(600, 5, topics...))
	j.compare(topics...)
}

func withoutKey(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	all := messages(1000, 10, topic)
	for i := range all {
		if i%2 == 0 {
			all[i].Key = nil
		}
	}
	j.accept(all)
	j.compare(topic)
}

func concurrentCallers(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	var callers sync.WaitGroup
	answers := make([][]error, 8)
	for caller := range answers {
		callers.Go(func() {
			all := messages(500, 7, topic)
			for i := range all {
				all[i].Key = fmt.Appendf(nil, "caller-%d-%s", caller, all[i].Key)
			}
			for call := range slices.Chunk(all, 100) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				answers[caller] = append(answers[caller], j.publish(ctx, call)...)
				cancel()
			}
		})
	}
	callers.Wait()
	expect(t, slices.Concat(answers...), publisher.Accepted)
	j.compare(topic)
}

func smallCalls(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	j.publish(t.Context(), nil)
	all := messages(5, 2, topic)
	for call := range slices.Chunk(all, 1) {
		j.accept(call)
	}
	j.publish(t.Context(), []publisher.Message{})
	j.compare(topic)
}
