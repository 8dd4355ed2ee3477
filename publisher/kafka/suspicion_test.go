package kafka

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A used-up quota is logged as one state, however many pauses it requests, and holds what goes to its broker.
func TestQuotaIsOneState(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b, now := &broker{cluster: p.cluster, address: "busy:9092"}, time.Now()
	p.cluster.nodes[0] = b
	for range 100 {
		b.throttle(&conn{}, time.Minute, now)
		b.throttle(&conn{}, 0, now)
		err := b.refusal(t.Context(), time.Now())
		if fate, _ := publisher.FateOf(err, "t"); fate != (publisher.Fate{Kind: publisher.FateBroker, Name: "busy:9092"}) {
			t.Fatalf("during a pause: %v", err)
		}
		now = now.Add(quotaQuiet)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines are logged:\n%s", n, log.String())
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
