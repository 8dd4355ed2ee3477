package amqp_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const benchBatch = 1000

// BenchmarkPublish publishes batches of 1000 messages of 512 B with 1000 keys to a quorum queue, and
// the same with the bare library. One operation is one message.
func BenchmarkPublish(b *testing.B) {
	h := newHarness(b, "", amqp091.QueueTypeQuorum)
	for _, keys := range []int{1000, 0} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			topic := h.Unknown(nil)
			h.create(b, topic, nil)
			p := h.open(b, nil)
			defer p.Close()
			messages := benchMessages(topic, keys)
			for n := 0; n < b.N; n += benchBatch {
				batch := messages[:min(benchBatch, b.N-n)]
				for _, err := range p.Publish(context.Background(), batch) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	b.Run("bare library", func(b *testing.B) {
		topic := h.Unknown(nil)
		h.create(b, topic, nil)
		ch := channel(b, h.conn)
		if err := ch.Confirm(false); err != nil {
			b.Fatal(err)
		}
		returns := ch.NotifyReturn(make(chan amqp091.Return, benchBatch))
		messages := benchMessages(topic, 0)
		confirms := make([]*amqp091.DeferredConfirmation, 0, benchBatch)
		for n := 0; n < b.N; n += benchBatch {
			confirms = confirms[:0]
			for _, m := range messages[:min(benchBatch, b.N-n)] {
				headers := amqp091.Table{}
				for _, h := range m.Headers {
					headers[h.Name] = h.Value
				}
				confirm, err := ch.PublishWithDeferredConfirm("", m.Topic, true, false, amqp091.Publishing{
					DeliveryMode: amqp091.Persistent, MessageId: m.ID, Timestamp: m.Inserted, Headers: headers, Body: m.Payload})
				if err != nil {
					b.Fatal(err)
				}
				confirms = append(confirms, confirm)
			}
			for _, confirm := range confirms {
				if !confirm.Wait() {
					b.Fatal("not confirmed")
				}
			}
		}
		if len(returns) > 0 {
			b.Fatal("returned")
		}
	})
}

func benchMessages(topic string, keys int) []publisher.Message {
	messages := make([]publisher.Message, benchBatch)
	for i := range messages {
		m := &messages[i]
		*m = publisher.Message{
			ID: "018f4b1e-7c3a-7000-8000-" + fmt.Sprintf("%012d", i), Topic: topic, Payload: bytes.Repeat([]byte{'x'}, 512),
			Headers:  []publisher.Header{{Name: "source", Value: "orders-service"}, {Name: "trace", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736"}},
			Type:     "application/json",
			Inserted: time.Unix(1_700_000_000, 0),
		}
		if keys > 0 {
			m.Key = []byte("customer-" + strconv.Itoa(i%keys))
		}
	}
	return messages
}
