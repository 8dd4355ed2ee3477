package nats

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// allowance is the maximum number of allocations of this package for a message. Those of nats.go are not included.
const allowance = 3

// ownWork returns one call of n messages without the library: everything except PublishMsg and the arrival of the
// answers, which are the library's work.
func ownWork(n int, oneByOne bool) func() {
	c := newCall(&link{p: &Publisher{}, inbox: "_INBOX.ABCDEFGHIJKL."}, "")
	c.met["ORDERS"] = true
	messages, acks := make([]publisher.Message, n), make([]arrival, n)
	for i := range messages {
		id := fmt.Sprintf("018f4b1e-7c3a-7000-8000-%012d", i)
		messages[i] = publisher.Message{
			ID: id, DedupID: id, Topic: "orders", Key: []byte("customer"), Payload: make([]byte, 512),
			Type: "application/json",
			Headers: []publisher.Header{
				{Name: "source", Value: "orders-service"},
				{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			},
		}
		if oneByOne {
			messages[i].Key = fmt.Append(nil, "customer-", i)
		}
		ack := fmt.Appendf(nil, `{"stream":"ORDERS","seq":%d}`, i+1)
		acks[i] = arrival{message: int32(i), answer: &nats.Msg{Data: ack}}
	}
	errs := make([]error, n)
	return func() {
		c.begin(messages, errs)
		for i := range n {
			m := &messages[i]
			if !oneByOne {
				_ = check(m)
				c.wire.build(m, "")
				c.wire.add(headerBatch, "ABCDEFGHIJKL.1.1-_1")
				c.wire.add(headerSequence, strconv.Itoa(i+1))
				continue
			}
			if next, ok := c.turn(); !ok || int(next) != i {
				panic("another message's turn")
			}
			if _, err := c.wire.encode(m, c.address(int32(i))); err != nil {
				panic(err)
			}
			c.sends(int32(i))
		}
		for i, arrived := range acks {
			if oneByOne {
				c.take(arrived)
			} else {
				c.settles(int32(i), nil)
			}
		}
		c.finish(nil, nil)
	}
}

func TestAllocations(t *testing.T) {
	const n = 1000
	for name, oneByOne := range map[string]bool{"one by one": true, "in a batch": false} {
		call := ownWork(n, oneByOne)
		call() // allocates the memory that is reused
		if got := testing.AllocsPerRun(20, call) / n; got >= allowance {
			t.Errorf("%s: %.2f allocations for a message, not less than %d", name, got, allowance)
		}
	}
}

// BenchmarkOwn measures this package's own work for a message.
func BenchmarkOwn(b *testing.B) {
	for name, oneByOne := range map[string]bool{"one-by-one": true, "in-a-batch": false} {
		b.Run(name, func(b *testing.B) {
			const n = 1000
			call := ownWork(n, oneByOne)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/msg")
		})
	}
}
