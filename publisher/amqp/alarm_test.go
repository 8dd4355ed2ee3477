package amqp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// blocked checks that the publisher knows of an alarm, and holds all messages because of it without waiting.
func blocked(t *testing.T, p *amqp.Publisher, topic, reason string) {
	t.Helper()
	if err := p.Ping(within(t, 10*time.Second)); err == nil ||
		!strings.Contains(err.Error(), "has blocked publishing ("+reason+")") {
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
	p, large, leaver := h.open(t, nil), h.open(t, nil), h.open(t, nil)
	for _, p := range []*amqp.Publisher{p, large, leaver} {
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

	messages, more := numbered(300, 7, topic), numbered(900, 0, topic)
	for i := range more { // more than the kernel buffers for a connection whose peer does not read
		more[i].ID, more[i].Payload = fmt.Sprint("large-", i), make([]byte, 15<<10)
	}
	held := func(p *amqp.Publisher, messages []publisher.Message) (left []publisher.Message) {
		t.Helper()
		for i, err := range p.Publish(within(t, 10*time.Second), messages) {
			class := publisher.ClassOf(err)
			if class == publisher.Accepted { // the alarm takes effect a moment after its command
				continue
			}
			if left = append(left, messages[i]); class != publisher.NotAttempted && class != publisher.Unavailable {
				t.Errorf("message %d: %v", i, err)
			}
		}
		return left
	}
	leftOf := map[*amqp.Publisher][]publisher.Message{p: held(p, messages), large: held(large, more)}
	blocked(t, p, topic, reason)
	blocked(t, large, topic, reason)
	held(leaver, numbered(1, 0, h.Unknown(t)))
	closes(t, leaver)

	finish()
	for p, left := range leftOf {
		await(t, func() bool { return p.Ping(within(t, 10*time.Second)) == nil })
		for len(left) > 0 {
			var later []publisher.Message
			for i, err := range p.Publish(within(t, 20*time.Second), left) {
				if err != nil {
					later = append(later, left[i])
				}
			}
			left = later
		}
	}
	got := h.Received(t, topic, len(messages)+len(more))
	if len(got) > len(messages)+len(more) {
		t.Errorf("%d messages arrived as %d", len(messages)+len(more), len(got))
	}
	inOrder(t, slices.DeleteFunc(got, func(m publisher.Message) bool { return m.Key == nil }), messages)
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
