package amqp_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// expectFates reports what three calls name in another way than wanted; "-" is nothing.
func expectFates(t *testing.T, p publisher.Publisher, messages []publisher.Message, want ...string) {
	t.Helper()
	for range 3 {
		var got []string
		for i, err := range p.Publish(within(t, 10*time.Second), messages) {
			name := "-"
			if f, ok := publisher.FateOf(err, messages[i].Topic); ok {
				name = f.String()
			}
			got = append(got, name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the fates are %q, not %q", got, want)
		}
	}
}

// to returns a message without a key for each topic.
func to(topics ...string) []publisher.Message {
	messages := numbered(len(topics), 0, "")
	for i, topic := range topics {
		messages[i].Topic = topic
	}
	return messages
}

// On the default exchange a queue is named, full or missing.
func TestFatesOfQueues(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	full := amqp091.Table{amqp091.QueueMaxLenArg: 1, amqp091.QueueOverflowArg: amqp091.QueueOverflowRejectPublish}
	one, two, missing, free := h.Unknown(t), h.Unknown(t), h.Unknown(t), h.Topic(t)
	h.create(t, one, full)
	h.create(t, two, full)
	p := h.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	p.Publish(within(t, 10*time.Second), to(one, two))
	expectFates(t, p, to(one, free, two, missing, one, free), "queue "+one, "-", "queue "+two, "queue "+missing, "queue "+one, "-")
}

// Behind an exchange the route is named: which of its queues rejects is not known.
func TestFatesOfRoutes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, amqp091.ExchangeDirect, amqp091.QueueTypeClassic)
	full, missing, free := h.Unknown(t), h.Unknown(t), h.Topic(t)
	h.create(t, full, amqp091.Table{amqp091.QueueMaxLenArg: 1, amqp091.QueueOverflowArg: amqp091.QueueOverflowRejectPublish})
	p := h.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	p.Publish(within(t, 10*time.Second), to(full))
	messages := to(full, free, missing, free)
	messages[3].Exchange = "amqp-test-missing"
	expectFates(t, p, messages, fmt.Sprintf("topic %s/%s", h.exchange, full), "-", fmt.Sprintf("topic %s/%s", h.exchange, missing),
		"exchange amqp-test-missing")
}

// The configured exchange is what everything needs: without it the destination is in trouble.
func TestFateOfMissingExchange(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	h.exchange = "amqp-test-missing"
	p := h.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	expectFates(t, p, to("a", "b"), "destination", "destination")
}

// A queue that confirms nothing is named when others have confirmed, also before it, and the destination when nobody has.
func TestFateWithoutConfirm(t *testing.T) {
	t.Parallel()
	f := newFake(t, listen(t), func(m *sent) {
		if m.topic != "silent" {
			m.ack()
		}
	})
	for _, test := range []struct {
		topics []string
		want   []string
	}{
		{[]string{"silent"}, []string{"destination"}},
		{[]string{"free", "silent"}, []string{"-", "queue silent"}},
		{[]string{"silent", "free"}, []string{"queue silent", "-"}},
	} {
		p := f.open(t, "")
		var got []string
		messages := to(test.topics...)
		for i, err := range p.Publish(within(t, time.Second), messages) {
			name := "-"
			if f, ok := publisher.FateOf(err, messages[i].Topic); ok {
				name = f.String()
			}
			got = append(got, name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("the fates of %q are %q, not %q", test.topics, got, test.want)
		}
	}
}
