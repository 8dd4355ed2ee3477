package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// rows returns messages with the ids. Each message has its own key, which leads to the given partition (of n).
func rows(topic string, partition, n int, ids ...string) []publisher.Message {
	var messages []publisher.Message
	for _, id := range ids {
		for try := 0; ; try++ {
			key := fmt.Appendf(nil, "%s-%d", id, try)
			if partitionOf(key, n) == partition {
				messages = append(messages,
					publisher.Message{ID: id, Topic: topic, Key: key, Payload: []byte(`{}`), Type: "application/json"})
				break
			}
		}
	}
	return messages
}

// publish makes one call, which must end long before its deadline.
func publish(t *testing.T, p *Publisher, messages []publisher.Message) []publisher.Class {
	t.Helper()
	answers := answersOf(t, p, messages)
	classes := make([]publisher.Class, len(answers))
	for i, err := range answers {
		classes[i] = publisher.ClassOf(err)
	}
	return classes
}

func answersOf(t *testing.T, p *Publisher, messages []publisher.Message) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	answers := p.Publish(ctx, messages)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the call took %v", took)
	}
	return answers
}

func expect[T any](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Short names for the classes of the answers.
const (
	ok      = publisher.Accepted
	after   = publisher.NotAttempted
	never   = publisher.Permanent
	missing = publisher.Topology
	down    = publisher.Unavailable
	unsure  = publisher.Ambiguous
)

// once returns a fault for the first batch and none for later ones.
func once(f fault) func(*fakeBatch) fault {
	return times(1, f)
}

func times(n int, f fault) func(*fakeBatch) fault {
	return func(*fakeBatch) fault {
		if n--; n >= 0 {
			return f
		}
		return fault{}
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
		<-tick.C
	}
}
