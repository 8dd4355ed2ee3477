package amqp_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// expectFates fails the test if one of three calls names other fates than wanted; "-" means none.
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

// On the default exchange, the fate is the queue, whether the queue is full or missing.
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
	expectFates(t, p, to(one, free, two, missing, one, free), "queue "+one, "-", "queue "+two, "queue "+missing,
		"queue "+one, "-")
}

// On any other exchange, the fate is the route, because it is not known which of its queues rejects.
func TestFatesOfRoutes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, amqp091.ExchangeDirect, amqp091.QueueTypeClassic)
	full, missing, free := h.Unknown(t), h.Unknown(t), h.Topic(t)
	h.create(t, full, amqp091.Table{
		amqp091.QueueMaxLenArg:   1,
		amqp091.QueueOverflowArg: amqp091.QueueOverflowRejectPublish,
	})
	p := h.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	p.Publish(within(t, 10*time.Second), to(full))
	messages := to(full, free, missing, free)
	messages[3].Exchange = "amqp-test-missing"
	expectFates(t, p, messages, fmt.Sprintf("topic %s/%s", h.exchange, full), "-",
		fmt.Sprintf("topic %s/%s", h.exchange, missing),
		"exchange amqp-test-missing")
}

// Everything needs the configured exchange: without it, the destination is in trouble.
func TestFateOfMissingExchange(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	h.exchange = "amqp-test-missing"
	p := h.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	expectFates(t, p, to("a", "b"), "destination", "destination")
}

// The fate is the queue that confirms nothing if other queues have confirmed, even if they confirmed earlier. It is the
// destination if no queue has.
func TestFateWithoutConfirm(t *testing.T) {
	t.Parallel()
	ends := make(chan context.CancelFunc, 1)
	f := newFake(t, listen(t), func(m *sent) {
		if m.topic != "silent" {
			m.ack()
			return
		}
		select {
		case end := <-ends:
			end()
		default:
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
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if len(messages) == 1 {
			ends <- cancel // the call ends before the silence counts as that of the queue
		}
		for i, err := range p.Publish(ctx, messages) {
			name := "-"
			if f, ok := publisher.FateOf(err, messages[i].Topic); ok {
				name = f.String()
			}
			got = append(got, name)
		}
		cancel()
		if !slices.Equal(got, test.want) {
			t.Errorf("the fates of %q are %q, not %q", test.topics, got, test.want)
		}
	}
}
