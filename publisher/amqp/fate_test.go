package amqp_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
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
	expectFates(t, p, to(one, free, two, missing, one, free), "queue "+one, "-", "queue "+two, "queue "+missing, "queue "+one, "-")
}

// On any other exchange, the fate is the route, because it is not known which of its queues rejects.
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

// If the management interface reports that an exchange is a fanout, the exchange has one fate for all routing keys, and
// a call makes one try for all of them, because each try leaves a copy in the other queues. Any other exchange has one
// fate for each routing key.
func TestFateOfFanout(t *testing.T) {
	t.Parallel()
	h := newHarness(t, amqp091.ExchangeFanout, amqp091.QueueTypeClassic)
	full, healthy := h.Unknown(t), h.Unknown(t)
	h.create(t, full, amqp091.Table{amqp091.QueueMaxLenArg: 1, amqp091.QueueOverflowArg: amqp091.QueueOverflowRejectPublish})
	h.create(t, healthy, nil)
	direct := declareExchange(t, h.conn, amqp091.ExchangeDirect)
	ch := channel(t, h.conn)
	for _, key := range []string{"one", "two"} {
		if err := ch.QueueBind(full, key, direct, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := amqp.New(h.managed(t))
	t.Cleanup(func() { _ = p.Close() })
	p.Publish(within(t, 10*time.Second), to("filled"))
	messages := to("a", "b", "c", "d", "", "one", "two")
	messages[5].Exchange, messages[6].Exchange = direct, direct
	exchange := "exchange " + h.exchange
	want := []string{exchange, exchange, exchange, exchange, exchange, "topic " + direct + "/one", "topic " + direct + "/two"}
	await(t, func() bool {
		p.Publish(within(t, 10*time.Second), messages[:1])
		return p.KnowsFanout(h.exchange)
	})
	p.Publish(within(t, 10*time.Second), messages[:1]) // from now on the whole exchange is treated with care
	before := len(h.Received(t, healthy, 1))
	expectFates(t, p, messages, want...)
	if n := len(h.Received(t, healthy, before)); n > before+3 {
		t.Errorf("three calls have left %d copies", n-before)
	}
}
