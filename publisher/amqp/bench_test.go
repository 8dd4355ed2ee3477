package amqp_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const benchBatch = 1000

// BenchmarkPublish publishes batches of 1000 messages of 512 B with two headers to a quorum queue, and does the same
// with the bare library in windows of 1000. One operation is one message. The number of operations must be a multiple
// of 1000.
func BenchmarkPublish(b *testing.B) {
	h := newHarness(b, "", amqp091.QueueTypeQuorum)
	for _, load := range []struct {
		name    string
		callers int
		key     func(i int) []byte
	}{
		{"1000 keys", 1, func(i int) []byte { return fmt.Appendf(nil, "customer-%d", i) }},
		{"1000 keys, 4 callers", 4, func(i int) []byte { return fmt.Appendf(nil, "customer-%d", i) }},
		{"no keys", 1, func(int) []byte { return nil }},
		{"a tenth on one key", 1, func(i int) []byte { return fmt.Appendf(nil, "customer-%d", i*min(i%10, 1)) }},
	} {
		b.Run(load.name, func(b *testing.B) {
			topic := h.Unknown(nil)
			h.create(b, topic, nil)
			p := h.open(b, nil)
			defer p.Close()
			messages := benchMessages(topic)
			for i := range messages {
				messages[i].Key = load.key(i)
			}
			defer reportCPU(b)()
			var callers sync.WaitGroup
			var sent atomic.Int64
			for range load.callers {
				callers.Go(func() {
					for sent.Add(benchBatch)-benchBatch < int64(b.N) {
						for _, err := range p.Publish(context.Background(), messages) {
							if err != nil {
								b.Error(err)
								return
							}
						}
					}
				})
			}
			callers.Wait()
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
		messages := benchMessages(topic)
		defer reportCPU(b)()
		confirms := make([]*amqp091.DeferredConfirmation, 0, benchBatch)
		for n := 0; n < b.N; n += benchBatch {
			confirms = confirms[:0]
			for _, m := range messages {
				headers := amqp091.Table{}
				for _, h := range m.Headers {
					headers[h.Name] = h.Value
				}
				confirm, err := ch.PublishWithDeferredConfirm("", m.Topic, true, false, amqp091.Publishing{
					DeliveryMode: amqp091.Persistent, MessageId: m.ID, Timestamp: m.Inserted, Headers: headers, Body: m.Payload,
				})
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

// reportCPU reports the processor time of this process for each message. It shows the share of the client library and
// the publisher in the rate, as opposed to the broker's own work.
func reportCPU(b *testing.B) func() {
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	b.ResetTimer()
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/op") }
}

func benchMessages(topic string) []publisher.Message {
	messages := make([]publisher.Message, benchBatch)
	for i := range messages {
		m := &messages[i]
		*m = publisher.Message{
			ID: "018f4b1e-7c3a-7000-8000-" + fmt.Sprintf("%012d", i), Topic: topic, Payload: bytes.Repeat([]byte{'x'}, 512),
			Headers: []publisher.Header{
				{Name: "source", Value: "orders-service"},
				{Name: "trace", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736"},
			},
			Type:     "application/json",
			Inserted: time.Unix(1_700_000_000, 0),
		}
	}
	return messages
}
