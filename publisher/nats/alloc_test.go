package nats

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// allowance is the maximum number of allocations of this package for a message. Those of nats.go are not included.
const allowance = 3

// ownWork returns one call of n messages without the library: everything except PublishMsg and the arrival of the
// answers, which are the library's work.
func ownWork(n int) func() {
	c := newCall(&link{p: &Publisher{}, inbox: "_INBOX.ABCDEFGHIJKL."}, "")
	c.met["ORDERS"] = true
	messages, acks := make([]publisher.Message, n), make([]arrival, n)
	for i := range messages {
		id := fmt.Sprintf("018f4b1e-7c3a-7000-8000-%012d", i)
		messages[i] = publisher.Message{
			ID: id, DedupID: id, Topic: "orders", Key: fmt.Append(nil, "customer-", i), Payload: make([]byte, 512),
			Type: "application/json",
			Headers: []publisher.Header{
				{Name: "source", Value: "orders-service"},
				{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			},
		}
		ack := fmt.Appendf(nil, `{"stream":"ORDERS","seq":%d}`, i+1)
		acks[i] = arrival{message: int32(i), answer: &nats.Msg{Data: ack}}
	}
	errs := make([]error, n)
	return func() {
		c.begin(messages, errs)
		for i := range n {
			if next, ok := c.turn(); !ok || int(next) != i {
				panic("another message's turn")
			}
			if _, err := c.wire.encode(&messages[i], c.address(int32(i))); err != nil {
				panic(err)
			}
			c.state[int32(i)] = sent
			c.waiting++
		}
		for _, arrived := range acks {
			c.take(arrived)
		}
		c.finish(nil, nil)
	}
}

func TestAllocations(t *testing.T) {
	const n = 1000
	call := ownWork(n)
	call() // allocates the memory that is reused
	if got := testing.AllocsPerRun(20, call) / n; got >= allowance {
		t.Errorf("%.2f allocations for a message, not less than %d", got, allowance)
	}
}

// BenchmarkOwn measures this package's own work for a message.
func BenchmarkOwn(b *testing.B) {
	const n = 1000
	call := ownWork(n)
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/msg")
}
