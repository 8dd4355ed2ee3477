package amqp_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// open returns a publisher for the fake, which is closed when the test ends.
func (f *fake) open(t *testing.T, exchange string) *amqp.Publisher {
	return openAt(t, exchange, "amqp://guest:secret@"+f.listener.Addr().String())
}

func openAt(t *testing.T, exchange, url string) *amqp.Publisher {
	p := amqp.New(amqp.Config{URL: func() (string, error) { return url, nil }, Exchange: exchange})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// numbered returns n messages with ids from 0 that use the keys in turn (no keys if keys is 0).
func numbered(n, keys int, topic string) []publisher.Message {
	messages := make([]publisher.Message, n)
	for i := range messages {
		messages[i] = publisher.Message{ID: fmt.Sprint(i), Topic: topic, Payload: []byte("payload")}
		if keys > 0 {
			messages[i].Key = fmt.Appendf(nil, "key-%d", i%keys)
		}
	}
	return messages
}

// want checks one answer.
func want(t *testing.T, what string, err error, class publisher.Class) {
	t.Helper()
	if got := publisher.ClassOf(err); got != class {
		t.Errorf("%s is %v, want %v: %v", what, got, class, err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestNackHoldsTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t, listen(t), func(m *sent) {
		if m.topic == "full" {
			m.nack()
		} else {
			m.ack()
		}
	})
	messages := numbered(9, 3, "free")
	messages[3].Topic = "full" // of the first key
	answers := f.open(t, "").Publish(within(t, 10*time.Second), messages)
	for i, err := range answers {
		class := publisher.Accepted
		switch i {
		case 3:
			class = publisher.Unavailable
			if publisher.ScopeOf(err) != publisher.ScopeTopic {
				t.Errorf("the answer reaches %v, want the topic", publisher.ScopeOf(err))
			}
		case 6:
			class = publisher.NotAttempted
		}
		want(t, fmt.Sprint("message ", i), err, class)
	}
}

// A queue that is full for long may give a copy of each rejected message to another queue (reject-publish-dlx), also on
// the default exchange. Its tries then count as copies, and so become rare, until it takes a message.
func TestTriesOfAFullQueueBecomeRare(t *testing.T) {
	t.Parallel()
	var free atomic.Bool
	f := newFake(t, listen(t), func(m *sent) {
		if free.Load() {
			m.ack()
		} else {
			m.nack()
		}
	})
	p := f.open(t, "")
	publish := func() error { return p.Publish(within(t, 10*time.Second), numbered(1, 1, "full"))[0] }
	for range 2 {
		for try := 1; try <= 30; try++ {
			err := publish()
			want(t, "a message for the full queue", err, publisher.Unavailable)
			if publisher.Repeats(err) != (try >= 20) {
				t.Errorf("try %d may leave a copy: %t", try, publisher.Repeats(err))
			}
		}
		free.Store(true)
		want(t, "a message that it takes", publish(), publisher.Accepted)
		free.Store(false)
	}
}

func TestReturnedIsNeverAccepted(t *testing.T) {
	t.Parallel()
	const n = 400
	var last atomic.Int64
	f := newFake(t, listen(t), func(m *sent) {
		if !m.mandatory {
			t.Errorf("message %s is not mandatory", m.id)
		}
		if strings.HasPrefix(m.topic, "nowhere") {
			m.sendBack()
		}
		if last.Add(1) == n {
			m.ackAll() // one confirm for returned and routed messages alike
		}
	})
	messages := numbered(n, 0, "somewhere")
	for i := range messages {
		if i%3 == 0 {
			messages[i].Topic = fmt.Sprint("nowhere-", i)
		}
	}
	for i, err := range f.open(t, "").Publish(within(t, 10*time.Second), messages) {
		if i%3 != 0 {
			want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
			continue
		}
		want(t, fmt.Sprint("message ", i), err, publisher.Topology)
		if publisher.ScopeOf(err) != publisher.ScopeTopic {
			t.Errorf("the answer reaches %v, want the topic", publisher.ScopeOf(err))
		}
	}
}

// One message is never answered, and only its own key waits. The others are answered out of order.
func TestOneUnconfirmedMessageOfEachKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	open := map[string]string{}
	var gathered []*sent
	f := newFake(t, listen(t), func(m *sent) {
		mu.Lock()
		defer mu.Unlock()
		if before, found := open[m.key]; found {
			t.Errorf("message %s left before %s of the same key was confirmed", m.id, before)
		}
		open[m.key] = m.id
		if m.key == "key-0" {
			return
		}
		if gathered = append(gathered, m); len(gathered) < 4 {
			return
		}
		for i := len(gathered) - 1; i >= 0; i-- {
			delete(open, gathered[i].key)
			gathered[i].ack()
		}
		gathered = gathered[:0]
	})
	const keys = 5
	answers := f.open(t, "").Publish(within(t, 10*time.Second), numbered(100, keys, "topic"))
	for i, err := range answers {
		switch {
		case i == 0:
			want(t, "the unanswered message", err, publisher.Unavailable)
		case i%keys == 0:
			want(t, "a message after it", err, publisher.NotAttempted)
		default:
			want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
		}
	}
}

// Some messages make the broker close the channel before it has confirmed the others.
func TestPoisonIsFoundAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code  uint16
		class publisher.Class
		size  int // size of the poison's payload
	}{
		{406, publisher.Permanent, 1000},
		{406, publisher.Permanent, 1},
		{311, publisher.Permanent, 1000},
		{403, publisher.Topology, 1000},
		{405, publisher.Refused, 1000},
	} {
		t.Run(fmt.Sprint(test.code, " of ", test.size), func(t *testing.T) {
			t.Parallel()
			copies := map[string]int{}
			closed := 0
			f := newFake(t, listen(t), func(m *sent) {
				copies[m.id]++
				switch {
				case strings.HasPrefix(m.topic, "poison"):
					closed++
					m.closeChannel(test.code, "PRECONDITION_FAILED - or so")
				case closed > 0:
					m.ack()
				}
			})
			messages := numbered(600, 300, "topic")
			poison := map[int]bool{100: true, 250: true}
			for i := range poison {
				messages[i].Topic = fmt.Sprint("poison-", i)
				messages[i].Payload = make([]byte, test.size)
			}
			p := f.open(t, "")
			for i, err := range p.Publish(within(t, 20*time.Second), messages) {
				switch {
				case poison[i]:
					want(t, "the poison", err, test.class)
				case poison[i-300]:
					want(t, "the next of its key", err, publisher.NotAttempted)
				default:
					want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
				}
			}
			_ = p.Close()
			f.stop()
			for id, n := range copies {
				if n > 3 {
					t.Errorf("message %s was sent %d times", id, n)
				}
			}
			if len(f.connections()) != 1 {
				t.Errorf("%d connections, want one: the broker closed channels only", len(f.connections()))
			}
		})
	}
}

// An exchange that disappears is looked for again, instead of closing a channel for each message.
func TestExchangeGoesAway(t *testing.T) {
	t.Parallel()
	received := 0
	var f *fake
	f = newFake(t, listen(t), func(m *sent) {
		received++
		f.missing.Store(m.exchange, true)
		m.closeChannel(404, "NOT_FOUND - no exchange")
	})
	p := f.open(t, "exchange")
	const n = 1800
	messages := numbered(n, 0, "topic")
	for i := range messages {
		messages[i].Topic = fmt.Sprint("topic-", i)
	}
	var unknown, missing int
	for i, err := range p.Publish(within(t, 10*time.Second), messages) {
		switch publisher.ClassOf(err) {
		case publisher.Ambiguous:
			unknown++
		case publisher.Topology:
			missing++
		default:
			t.Errorf("message %d: %v", i, err)
		}
	}
	f.stop()
	if received != 1 || unknown == 0 || missing == 0 || unknown+missing != n {
		t.Errorf("%d messages received, %d unknown, %d held for the exchange", received, unknown, missing)
	}
}

// Answers that come after a call has ended must not answer the next call.
func TestLateAnswersAreForgotten(t *testing.T) {
	t.Parallel()
	var late *sent
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	f := newFake(t, listen(t), func(m *sent) {
		if late == nil {
			late = m
			cancel()
			return
		}
		again := m.conn == late.conn && m.channel == late.channel && m.tag > 1
		if _, open := m.conn.tags[late.channel]; again || m.conn == late.conn && m.channel != late.channel && open {
			late.sendBack() // a broker sends nothing more on a channel that was closed
			late.ackAll()
		}
		if !again {
			m.nack()
		}
	})
	p := f.open(t, "")
	messages := numbered(1, 1, "topic")
	want(t, "the message without an answer", p.Publish(ctx, messages)[0], publisher.Ambiguous)
	want(t, "the same message later", p.Publish(within(t, 10*time.Second), messages)[0], publisher.Unavailable)
}

// await polls until the condition holds.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case <-poll.C:
		case <-late:
			t.Fatal("still not so after 20 s")
		}
	}
}
