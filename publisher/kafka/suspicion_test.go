package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A long pause for a used-up quota holds what goes to its broker. A short one is waited for.
func TestQuota(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	b := &broker{cluster: p.cluster, address: "busy:9092", paused: time.Now().Add(time.Minute)}
	p.cluster.nodes[0] = b
	err := b.refusal(t.Context(), time.Now())
	if fate, _ := publisher.FateOf(err, "t"); fate != (publisher.Fate{Kind: publisher.FateBroker, Name: "busy:9092"}) {
		t.Fatalf("during a pause: %v", err)
	}
	b.paused = time.Now().Add(maxThrottle / 2)
	if err := b.refusal(t.Context(), time.Now()); err != nil {
		t.Errorf("a short pause is not waited for: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), maxThrottle/8)
	defer cancel()
	if b.refusal(ctx, time.Now()) == nil {
		t.Error("a pause is waited for that outlasts the call")
	}
}
