package amqp_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// stuffing is more than the kernel buffers for a connection whose peer does not read.
const stuffing = 64 << 20

// blocked checks that the publisher knows of an alarm, and holds all messages because of it without waiting.
func blocked(t *testing.T, p *amqp.Publisher, topic, reason string) {
	t.Helper()
	if err := p.Ping(within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), "has blocked publishing ("+reason+")") {
		t.Errorf("ping says %v, want that the broker is %s", err, reason)
	}
	begun := time.Now()
	for i, err := range p.Publish(within(t, 30*time.Second), numbered(300, 0, topic)) {
		want(t, fmt.Sprint("message ", i, " under the alarm"), err, publisher.Unavailable)
		if publisher.ScopeOf(err) != publisher.ScopeDestination {
			t.Errorf("the answer reaches %v, want the destination", publisher.ScopeOf(err))
		}
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("a blocked publisher answers after %v", took)
	}
}

// lose makes the publisher lose its connection because of a message that gets stuck, and connect again.
func lose(t *testing.T, p *amqp.Publisher, topic string) {
	t.Helper()
	stuck := numbered(1, 1, topic)
	stuck[0].Payload = make([]byte, stuffing)
	begun := time.Now()
	want(t, "the message that got stuck", p.Publish(within(t, 10*time.Second), stuck)[0], publisher.Ambiguous)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the message that got stuck has its answer after %v", took)
	}
	await(t, func() bool {
		err := p.Ping(within(t, 10*time.Second))
		if err == nil {
			t.Fatal("the new connection passes for usable")
		}
		return publisher.ShortOf(err) == "broker blocked"
	})
}

// closes checks that a publisher can be closed in time.
func closes(t *testing.T, p *amqp.Publisher) {
	t.Helper()
	begun := time.Now()
	_ = p.Close()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("closing took %v", took)
	}
}

// The broker raises an alarm, during which it reads nothing from connections that publish, and ends it.
func (o *ownBroker) alarm(t *testing.T, reason string, raise, end []string) {
	h := o.harness
	topic := h.Topic(t)
	p, loser, leaver := h.open(t, nil), h.open(t, nil), h.open(t, nil)
	for _, p := range []*amqp.Publisher{p, loser, leaver} {
		defer p.Close()
		if err := p.Ping(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	ended := false
	finish := func() {
		if !ended {
			o.ctl(t, end...)
		}
		ended = true
	}
	defer finish()
	o.ctl(t, raise...)

	messages := numbered(300, 7, topic)
	for i, err := range p.Publish(within(t, 10*time.Second), messages) {
		switch publisher.ClassOf(err) {
		case publisher.NotAttempted, publisher.Unavailable:
		default:
			t.Errorf("message %d: %v", i, err)
		}
	}
	blocked(t, p, topic, reason)
	lose(t, loser, topic)
	blocked(t, loser, topic, reason)
	want(t, "a message of the one that leaves", leaver.Publish(within(t, 10*time.Second), numbered(1, 0, h.Unknown(t)))[0],
		publisher.Unavailable)
	closes(t, leaver)

	finish()
	for _, p := range []*amqp.Publisher{p, loser} {
		await(t, func() bool { return p.Ping(within(t, 10*time.Second)) == nil })
	}
	for left := messages; len(left) > 0; {
		var later []publisher.Message
		for i, err := range p.Publish(within(t, 20*time.Second), left) {
			if err != nil {
				later = append(later, left[i])
			}
		}
		left = later
	}
	want(t, "a message of the one that lost its connection", loser.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0],
		publisher.Accepted)
	got := h.Received(t, topic, len(messages)+1)
	if len(got) > len(messages)+1 {
		t.Errorf("%d messages and one arrived as %d", len(messages), len(got))
	}
	inOrder(t, got, messages)
}

// refusedAfterAlarm takes away the right to write while the publisher tests whether an alarm is over. The broker then
// answers the test with access-refused, which is an answer. Rows are held only because of the missing right.
func (o *ownBroker) refusedAfterAlarm(t *testing.T) {
	o.ctl(t, "add_user", "revoked", password)
	allow := func(write string) { o.ctl(t, "set_permissions", "revoked", ".*", write, ".*") }
	allow(".*")
	topic := o.harness.Topic(t)
	config := o.harness.config()
	config.URL = func() (string, error) {
		return strings.Replace(o.harness.url, "guest:guest", "revoked:"+url.QueryEscape(password), 1), nil
	}
	p := amqp.New(config)
	defer p.Close()
	publish := func() error { return p.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0] }
	want(t, "a message before", publish(), publisher.Accepted)

	o.ctl(t, "set_vm_memory_high_watermark", "0.0001")
	end := sync.OnceFunc(func() { o.ctl(t, "set_vm_memory_high_watermark", "0.4") })
	defer end()
	lose(t, p, topic)
	blocked(t, p, topic, "low on memory")
	allow("^$")
	blocked(t, p, topic, "low on memory")
	end()
	await(t, func() bool { return p.Ping(within(t, 10*time.Second)) == nil })
	err := publish()
	want(t, "a message without the right", err, publisher.Topology)
	if publisher.ScopeOf(err) != publisher.ScopeTopic {
		t.Errorf("the answer reaches %v, want the topic: %v", publisher.ScopeOf(err), err)
	}
	allow(".*")
	await(t, func() bool { return publish() == nil })
}

// inOrder checks that every message arrived, and that the first copies of each key's messages arrived in order.
func inOrder(t *testing.T, got, sent []publisher.Message) {
	t.Helper()
	arrived := map[string]bool{}
	next := map[string][]string{}
	for _, m := range sent {
		next[string(m.Key)] = append(next[string(m.Key)], m.ID)
	}
	for _, m := range got {
		key := string(m.Key)
		if key == "" || arrived[m.ID] {
			continue
		}
		arrived[m.ID] = true
		if m.ID != next[key][0] {
			t.Fatalf("message %s of %s arrived before %s", m.ID, key, next[key][0])
		}
		next[key] = next[key][1:]
	}
	if len(arrived) != len(sent) {
		t.Errorf("%d messages arrived of %d", len(arrived), len(sent))
	}
}

// A connection that is lost during an alarm is followed by one that counts as blocked from the start. Finding out
// whether the alarm is over costs no row its outcome, however long the alarm lasts.
func TestConnectionLostWhileBlocked(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	rows := 0
	f := newFake(t, listen(t), func(m *sent) {
		if m.id != "" {
			rows++
		} else if m.mandatory || m.exchange != "" || m.topic != "" {
			t.Errorf("tried out with a message for exchange %q, key %q", m.exchange, m.topic)
		}
		m.ack()
	})
	f.begin = func(c *fakeConn) {
		select {
		case <-over:
		default:
			c.block("low on memory")
			<-over
			c.unblock()
		}
	}
	t.Cleanup(end) // otherwise the fake would wait for ever after a failure
	p := f.open(t, "")
	lose(t, p, "topic")
	for range 3 {
		blocked(t, p, "topic", "low on memory")
	}
	end()
	await(t, func() bool { return p.Ping(within(t, 10*time.Second)) == nil })
	for i, err := range p.Publish(within(t, 10*time.Second), numbered(300, 7, "topic")) {
		want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
	}
	_ = p.Close()
	f.stop()
	if rows != 300 || len(f.connections()) != 2 {
		t.Errorf("%d rows arrived over %d connections, want 300 over 2", rows, len(f.connections()))
	}
}

// A lingering connection reports its end to the reader only once it is let go.
type lingering struct {
	net.Conn
	let <-chan struct{}
}

func (l *lingering) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err != nil {
		<-l.let
	}
	return n, err
}

// A connection whose write was given up during an alarm is lost from then on, also while the library has yet to notice.
func TestLostBeforeTheLibraryNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over, noticed := make(chan struct{}), make(chan struct{})
		network := newPipes()
		f := newFake(t, network, func(m *sent) { m.ack() })
		f.begin = func(c *fakeConn) {
			c.block("low on memory")
			<-over // what else is sent gets stuck
			c.unblock()
		}
		p := amqp.New(amqp.Config{
			Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
				conn, err := network.Dial(ctx, kind, address)
				return &lingering{conn, noticed}, err
			},
			URL: func() (string, error) { return "amqp://relay:secret@broker", nil },
		})
		defer p.Close()
		stuck := numbered(1, 1, "topic")
		stuck[0].Payload = make([]byte, 32<<10)
		want(t, "the message that got stuck", p.Publish(within(t, time.Second), stuck)[0], publisher.Ambiguous)
		if err := p.Ping(within(t, time.Second)); publisher.ShortOf(err) != "connection lost" {
			t.Errorf("ping says %v, want that the connection was lost", err)
		}
		close(noticed)
		await(t, func() bool { return publisher.ShortOf(p.Ping(within(t, time.Second))) == "broker blocked" })
		close(over)
		await(t, func() bool { return p.Ping(within(t, time.Second)) == nil })
	})
}
