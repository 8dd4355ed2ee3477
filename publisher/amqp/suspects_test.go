package amqp_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A payload above a megabyte is not sent together with others. If the broker refused it, the others would be left
// without an answer.
func TestLargePayloadGoesAlone(t *testing.T) {
	t.Parallel()
	const limit = 1_100_000
	copies := map[string]int{}
	var held []*sent // unanswered
	f := newFake(t, listen(t), func(m *sent) {
		copies[m.id]++
		held = append(held, m)
		if len(m.body) > limit {
			if len(held) > 1 {
				t.Errorf("message %s is on the wire with %d others", m.id, len(held)-1)
			}
			held = nil
			m.closeChannel(406, "PRECONDITION_FAILED - message size is larger than configured max size")
			return
		}
		m.ackAll()
		held = nil
	})
	p := f.open(t, "")
	sizes := map[int]int{10: 20_000, 20: 1_200_000, 40: 1_200_000, 50: 1_060_000}
	messages := numbered(300, 100, "topic")
	for i, size := range sizes {
		messages[i].Payload = make([]byte, size)
	}
	for i, err := range p.Publish(within(t, 10*time.Second), messages) {
		switch {
		case sizes[i] > limit:
			want(t, fmt.Sprint("message ", i), err, publisher.Permanent)
		case i >= 100 && sizes[i%100] > limit:
			want(t, fmt.Sprint("message ", i), err, publisher.NotAttempted)
		default:
			want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
		}
	}
	p.Close()
	f.stop()
	for id, n := range copies {
		if n != 1 {
			t.Errorf("message %s was sent %d times", id, n)
		}
	}
}

// A broker's limit may be below a megabyte. Once it has refused a payload, others of that size go alone.
func TestRefusedSizeGoesAlone(t *testing.T) {
	t.Parallel()
	const limit = 40_000
	copies := map[string]int{}
	f := newFake(t, listen(t), func(m *sent) {
		if copies[m.id]++; len(m.body) > limit {
			m.closeChannel(406, "PRECONDITION_FAILED - message size is larger than configured max size")
			return
		}
		m.ack()
	})
	p := f.open(t, "")
	const calls, n = 5, 200
	for call := range calls {
		messages := numbered(n, 0, "topic")
		for i := range messages {
			messages[i].ID = fmt.Sprint(call, "-", i)
		}
		messages[n/2].Payload = make([]byte, limit+1+call)
		for i, err := range p.Publish(within(t, 10*time.Second), messages) {
			class := publisher.Accepted
			if i == n/2 {
				class = publisher.Permanent
			}
			want(t, messages[i].ID, err, class)
		}
	}
	p.Close()
	f.stop()
	for id, sent := range copies {
		if sent != 1 && !strings.HasPrefix(id, "0-") {
			t.Errorf("message %s was sent %d times", id, sent)
		}
	}
}

// Payloads of up to a megabyte are sent together.
func TestPayloadsGoTogether(t *testing.T) {
	t.Parallel()
	const n = 8
	received := 0
	f := newFake(t, listen(t), func(m *sent) {
		if received++; received == n {
			m.ackAll()
		}
	})
	messages := numbered(n, 0, "topic")
	for i := range messages {
		messages[i].Payload = make([]byte, 200_000)
	}
	for i, err := range f.open(t, "").Publish(within(t, 10*time.Second), messages) {
		want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
	}
}

// The right is missing for one routing key. The messages of other keys are not all tried one by one: as many of a
// routing key go together as were accepted since the channel was closed.
func TestAcceptedRouteSpeaksForOthers(t *testing.T) {
	t.Parallel()
	const n = 400
	closed, accepted, waiting := false, 0, 0
	f := newFake(t, listen(t), func(m *sent) {
		switch {
		case m.topic == "forbidden":
			closed = true
			m.closeChannel(403, "ACCESS_REFUSED")
		case closed:
			if waiting++; waiting == max(1, min(accepted, n-1-accepted)) {
				m.ackAll()
				accepted, waiting = accepted+waiting, 0
			}
		}
	})
	messages := numbered(n, 0, "allowed")
	messages[n/2].Topic = "forbidden"
	for i, err := range f.open(t, "").Publish(within(t, 10*time.Second), messages) {
		class := publisher.Accepted
		if i == n/2 {
			class = publisher.Topology
		}
		want(t, fmt.Sprint("message ", i), err, class)
	}
}

func TestNamedExchanges(t *testing.T) {
	t.Parallel()
	var sentTo atomic.Int64
	f := newFake(t, listen(t), func(m *sent) {
		if !strings.HasPrefix(m.exchange, "there-") {
			t.Errorf("message %s was sent to exchange %q", m.id, m.exchange)
		}
		sentTo.Add(1)
		m.ack()
	})
	f.missing.Store("gone", true)
	messages := numbered(300, 30, "topic")
	for i := range messages {
		messages[i].Exchange = fmt.Sprint("there-", i%3)
	}
	messages[7].Exchange = "gone"
	messages[8].Exchange = strings.Repeat("x", 256)
	for i, err := range f.open(t, "").Publish(within(t, 10*time.Second), messages) {
		switch {
		case i == 7:
			want(t, "the message for no exchange", err, publisher.Topology)
			if publisher.ScopeOf(err) != publisher.ScopeTopic {
				t.Errorf("the answer reaches %v, want the topic", publisher.ScopeOf(err))
			}
		case i == 8:
			want(t, "the message for an impossible exchange", err, publisher.Permanent)
		case i%30 == 7, i%30 == 8:
			want(t, fmt.Sprint("message ", i), err, publisher.NotAttempted)
		default:
			want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
		}
	}
	if got := sentTo.Load(); got != 280 {
		t.Errorf("%d messages were sent, want 280", got)
	}
}
