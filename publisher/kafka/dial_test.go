package kafka

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// holes are addresses whose packets are dropped. A dial ends when the test ends it, or with its context.
type holes struct {
	mu        sync.Mutex
	addresses []string
	deaf      bool          // dials do not end even with their context
	end       chan struct{} // ends the dials that are under way when closed
	dials     int
	ended     int
}

func (h *holes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	h.mu.Lock()
	hole, end, deaf := slices.Contains(h.addresses, address), h.end, h.deaf
	if hole {
		h.dials++
	}
	h.mu.Unlock()
	if !hole {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	done := ctx.Done()
	if deaf {
		done = nil
	}
	select {
	case <-end:
	case <-done:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended++
	return nil, os.ErrDeadlineExceeded
}

// set changes the holes under their lock.
func (h *holes) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// count returns how many dials into holes have begun and ended.
func (h *holes) count() (dials, ended int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials, h.ended
}

// answered returns the answers of a call that must not wait for anything.
func answered(t *testing.T, p *Publisher, messages []publisher.Message) []error {
	t.Helper()
	answers := make(chan []error, 1)
	go func() { answers <- p.Publish(context.Background(), messages) }()
	select {
	case got := <-answers:
		return got
	case <-time.After(15 * time.Second):
		t.Fatal("the call waits for a broker that is known to be away")
		return nil
	}
}

// Brokers that drop everything sent to them delay no call: once a dial has failed, no call waits for the next one. The
// partitions of the other brokers go on, and those of the lost brokers go on when these are back.
func TestBlackholedBrokersDelayNobody(t *testing.T) {
	t.Parallel()
	eachSpread(t, func(t *testing.T, s *spread) {
		h := &holes{end: make(chan struct{})}
		for _, b := range s.brokers[s.first:] {
			h.addresses = append(h.addresses, b.listener.Addr().String())
		}
		p := s.open(func(c *Config) { c.Dial = h.dial })
		close(h.end) // the first dials end at once
		call := func() { s.check(t, "a call", answered(t, p, s.messages()), down) }
		call()
		h.set(func() { h.end, h.deaf = make(chan struct{}), true })
		before, _ := h.count()
		eventually(t, func() bool {
			call()
			dials, ended := h.count()
			if ended > before+s.troubled { // dials of the first call may still end
				t.Fatal("a dial has ended that nobody ends")
			}
			return dials-ended == s.troubled
		})
		for range 20 { // while the dials are stuck
			call()
		}
		if dials, ended := h.count(); dials-ended != s.troubled {
			t.Errorf("%d dials hang, want one for each of %d brokers", dials-ended, s.troubled)
		}
		h.set(func() { close(h.end); h.addresses = nil })
		eventually(t, func() bool { return answersOf(t, p, s.messages()[2:3])[0] == nil })
	})
}

// A dial that takes longer than a call implies nothing about the broker. The dial goes on until it ends. In the
// meantime the broker does not count as away, and no other call waits for the dial.
func TestDialOutlastsItsCall(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	h := &holes{end: make(chan struct{}), addresses: []string{f.brokers[1].listener.Addr().String()}}
	p := f.open(func(c *Config) { c.Dial = h.dial })
	expect(t, "the healthy one", publish(t, p, rows("t", 0, 2, "a")), ok)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	p.Publish(ctx, rows("t", 1, 2, "b"))
	p.cluster.mu.Lock()
	if p.cluster.nodes[1].isAway() {
		t.Error("a broker is away that was given less than a second")
	}
	p.cluster.mu.Unlock()
	answers := answered(t, p, rows("t", 1, 2, "b"))
	if publisher.ClassOf(answers[0]) != down || publisher.ScopeOf(answers[0]) != publisher.ScopeMessage {
		t.Errorf("while the dial goes on: %v", answers[0])
	}
	if dials, ended := h.count(); dials != 1 || ended != 0 {
		t.Errorf("%d dials, of which %d have ended, want one that goes on", dials, ended)
	}
}

// If a deadline has almost ended, the remaining time is not spent on a request. The request could not be answered in
// time, and would cost a healthy broker its connections.
func TestNothingBeginsAtTheEndOfADeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), least/2)
	defer cancel()
	if !over(ctx) {
		t.Error("a context that is about to end counts as going on")
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if over(ctx) || over(t.Context()) {
		t.Error("a context that goes on counts as ended")
	}
	cancel()
	if !over(ctx) {
		t.Error("an ended context counts as going on")
	}
}

// An address that only the cluster names is not looked for in the settings, and a broker that ends connections at once
// may have a limit of them.
func TestExplanationsOfAddresses(t *testing.T) {
	t.Parallel()
	p := New(Config{Brokers: []string{"configured:9092"}})
	t.Cleanup(func() { _ = p.Close() })
	for _, test := range []struct {
		address string
		err     error
		says    string
	}{
		{"configured:9092", syscall.ECONNREFUSED, "host and port in Brokers"},
		{"advertised:9092", syscall.ECONNREFUSED, "advertised.listeners"},
		{"advertised:9092", context.DeadlineExceeded, "advertised.listeners"},
		{"configured:9092", io.EOF, "max.connections.per.ip"},
	} {
		if text := p.explain(test.address, test.err).Error(); !strings.Contains(text, test.says) {
			t.Errorf("%q does not speak of %s", text, test.says)
		}
	}
}
