package amqp_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

func TestBlockedConnection(t *testing.T) {
	t.Parallel()
	var first atomic.Pointer[sent]
	var copies atomic.Int64
	f := newFake(t, listen(t), func(m *sent) {
		copies.Add(1)
		if first.CompareAndSwap(nil, m) {
			m.conn.block("low on memory")
			return
		}
		m.ack()
	})
	p := f.open(t, "")
	messages := numbered(2, 1, "topic")
	answers := p.Publish(within(t, 10*time.Second), messages)
	want(t, "the message in flight", answers[0], publisher.Unavailable)
	want(t, "the next of its key", answers[1], publisher.NotAttempted)

	before := time.Now()
	answers = p.Publish(within(t, 30*time.Second), numbered(2, 0, "topic"))
	if waited := time.Since(before); waited > 10*time.Second {
		t.Errorf("a blocked publisher answers after %v", waited)
	}
	for _, err := range answers {
		want(t, "a message while blocked", err, publisher.Unavailable)
		if publisher.ScopeOf(err) != publisher.ScopeDestination {
			t.Errorf("the answer reaches %v, want the destination", publisher.ScopeOf(err))
		}
	}
	if err := p.Ping(within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), "low on memory") {
		t.Errorf("ping while blocked says %v, want the broker's reason", err)
	}

	f.connections()[0].unblock()
	first.Load().ack()
	await(t, func() bool { return p.Ping(within(t, 10*time.Second)) == nil })
	await(t, func() bool { return p.Publish(within(t, 10*time.Second), messages)[1] == nil })
	if n := copies.Load(); n != 2 {
		t.Errorf("two messages were sent %d times", n)
	}
}

func TestConnectionClosedByBroker(t *testing.T) {
	t.Parallel()
	var restarted atomic.Bool
	f := newFake(t, listen(t), func(m *sent) {
		switch {
		case restarted.Load():
			m.ack()
		case m.id == "2":
			m.conn.closeConnection(320, "CONNECTION_FORCED - broker forced connection closure")
		case m.id < "2":
			m.ack()
		}
	})
	p := f.open(t, "")
	messages := append(numbered(5, 0, "topic"), numbered(10, 2, "topic")[2:]...)
	messages[3].Key, messages[4].Key = []byte("a"), []byte("a")
	answers := p.Publish(within(t, 10*time.Second), messages)
	for i, err := range answers[:2] {
		want(t, fmt.Sprint("confirmed message ", i), err, publisher.Accepted)
	}
	for i, err := range answers[2:4] {
		want(t, fmt.Sprint("message ", i+2, " in flight"), err, publisher.Ambiguous)
	}
	want(t, "the next of a key", answers[4], publisher.NotAttempted)
	restarted.Store(true)
	await(t, func() bool { return p.Publish(within(t, 10*time.Second), messages[:1])[0] == nil })
}

// Something kills every connection. The publisher must not dial without a pause.
func TestDeadlyMessageDoesNotStorm(t *testing.T) {
	t.Parallel()
	f := newFake(t, listen(t), func(m *sent) { _ = m.conn.Close() })
	p := f.open(t, "")
	sent := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		err := p.Publish(within(t, 10*time.Second), numbered(1, 1, "topic"))[0]
		if publisher.ClassOf(err) == publisher.Ambiguous {
			sent++
		} else {
			want(t, "a message between connections", err, publisher.Unavailable)
		}
	}
	if n := len(f.connections()); n-sent > 1 || n < 2 || n > 15 { // the last one may be unused
		t.Errorf("%d connections and %d sent messages in a second, want a handful", n, sent)
	}
}

func TestCredentialsAreReadAgain(t *testing.T) {
	t.Parallel()
	var now, password atomic.Value // what is right, and what the publisher says
	now.Store("first")
	password.Store("first")
	f := newFake(t, listen(t), func(m *sent) { m.ack() })
	f.login = func(response string) bool { return response == "\x00user\x00"+now.Load().(string) }
	p := amqp.New(amqp.Config{URL: func() (string, error) {
		return "amqp://user:" + password.Load().(string) + "@" + f.listener.Addr().String(), nil
	}})
	defer p.Close()
	publish := func() error { return p.Publish(within(t, 10*time.Second), numbered(1, 0, "topic"))[0] }
	want(t, "a message", publish(), publisher.Accepted)

	now.Store("second")
	_ = f.connections()[0].Close()
	var err error
	await(t, func() bool {
		err = p.Ping(within(t, 10*time.Second))
		return err != nil && strings.Contains(err.Error(), "login")
	})
	want(t, "a message with the old password", publish(), publisher.Unavailable)
	if strings.Contains(err.Error(), "first") {
		t.Errorf("the error contains the password: %v", err)
	}

	password.Store("second")
	await(t, func() bool { return publish() == nil })
}

func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	gone := listen(t)
	_ = gone.Close()
	f := newFake(t, listen(t), func(m *sent) { m.ack() })
	hosts := gone.Addr().(*net.TCPAddr).String() + "," + f.listener.Addr().String()
	p := openAt(t, "", "amqp://guest:guest@"+hosts+"/vhost?heartbeat=5")
	want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 0, "topic"))[0], publisher.Accepted)
}
