package kafka

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// How a broker's goroutine treats answers and their absence. Nothing else runs here, so times can be chosen.
func TestSuspicion(t *testing.T) {
	t.Parallel()
	p := New(Config{Brokers: []string{"other:9092"}, Logger: slog.New(slog.DiscardHandler)})
	b, other := newBroker(p, "suspect:9092"), newBroker(p, "other:9092")
	p.cluster.nodes = map[int32]*broker{1: b, 2: other}
	now := time.Now()
	sent := func(ago time.Duration) *request {
		return &request{group: &group{}, sent: now.Add(-ago), wait: patience, err: os.ErrDeadlineExceeded}
	}
	refused := func() bool { b.show(); return b.refusal(b.standing(), time.Time{}) != nil }

	if b.unheard(sent(patience/8), now) || b.state.silences > 0 {
		t.Error("a request that was given no time makes a suspect")
	}
	first, beside := sent(patience), sent(2*patience)
	if !b.unheard(first, now) || b.state.silences != 1 || refused() {
		t.Error("the first request without an answer is not followed by another one at once")
	}
	if b.unheard(beside, now); b.state.silences != 1 {
		t.Error("a request that was under way beside it counts")
	}
	if b.state.failed == nil || !b.verify {
		t.Error("no dial shows whether the broker is there")
	}
	b.state.failed = nil

	again := sent(0)
	again.sent = now.Add(time.Millisecond)
	b.unheard(again, again.sent.Add(4*patience))
	if rest := b.state.until.Sub(again.sent.Add(4 * patience)); b.state.silences != 2 || rest != maxSilence || !refused() {
		t.Errorf("after the second one it is left alone for %v", rest)
	}
	b.state.backoff.After(nil)
	b.dialling = 1
	b.dialled(dialled{conn: &conn{}})
	if refused() {
		t.Error("a broker that was away meanwhile is left alone")
	}

	b.state.until = time.Now().Add(time.Hour)
	b.answered(sent(2*patience), now)
	if b.state.silences == 0 || refused() {
		t.Error("a late answer does not let one call at a time wait without a pause")
	}
	b.asking = sent(0)
	if !refused() {
		t.Error("two calls wait for a suspect")
	}
	b.end(b.asking, lost, nil)
	if refused() {
		t.Error("no call waits for a suspect")
	}
	b.answered(sent(patience/2), now)
	if b.state.silences != 0 || b.heard.Load() != now.UnixNano() {
		t.Error("an answer in time does not end the suspicion")
	}
}

// A used-up quota is logged as one state, however many pauses it requests, and holds what goes to its broker.
func TestQuotaIsOneState(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b, now := newBroker(p, "busy:9092"), time.Now()
	for range 100 {
		b.throttle(&conn{}, time.Minute, now)
		b.throttle(&conn{}, 0, now)
		err := b.refusal(&b.state, time.Time{})
		if fate, _ := publisher.FateOf(err, "t"); fate != (publisher.Fate{Kind: publisher.FateBroker, Name: "busy:9092"}) {
			t.Fatalf("during a pause: %v", err)
		}
		now = now.Add(quotaQuiet)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines are logged:\n%s", n, log.String())
	}
	b.throttle(&conn{}, 0, now.Add(1))
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "does not throttle this client any more") {
		t.Errorf("the end is not logged:\n%s", log.String())
	}
	b.state.paused = time.Now().Add(maxThrottle / 2)
	if err := b.refusal(&b.state, time.Time{}); err != nil {
		t.Errorf("a short pause is not waited for: %v", err)
	}
	if b.refusal(&b.state, time.Now().Add(maxThrottle/8)) == nil {
		t.Error("a pause is waited for that outlasts the call")
	}
}

// Connections that are no longer used end by themselves.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	b, now := newBroker(New(Config{}), "idle:9092"), time.Now()
	pair := func(used time.Time) (*conn, net.Conn) {
		ours, theirs := net.Pipe()
		return &conn{net: ours, socket: ours, used: used}, theirs
	}
	old, ended := pair(now.Add(-2 * idleTimeout))
	recent, theirs := pair(now.Add(-idleTimeout / 2))
	t.Cleanup(func() { _ = theirs.Close(); recent.close() })
	b.idle = []*conn{old, recent}
	if wake := b.dispatch(t.Context(), now); wake.Sub(now).Round(time.Second) != idleTimeout/2 {
		t.Errorf("looks again after %v", wake.Sub(now))
	}
	if _, err := ended.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || len(b.idle) != 1 {
		t.Errorf("%d connections are idle, the old one: %v", len(b.idle), err)
	}
}
