package nats_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// BenchmarkPublish makes calls of 1000 messages of 512 bytes with two headers to a stream on disk, with one or four
// calls at a time. The messages use the keys in turn.
func BenchmarkPublish(b *testing.B) {
	for _, shape := range []struct{ calls, keys int }{{1, 1000}, {4, 1000}, {1, 100}, {1, 10}, {1, 1}, {4, 1}, {1, 0}} {
		b.Run(fmt.Sprintf("calls=%d/keys=%d", shape.calls, shape.keys), func(b *testing.B) {
			benchmark(b, shape.calls, shape.keys)
		})
	}
}

func benchmark(b *testing.B, calls, keys int) {
	const size = 1000
	subject := harness{}.Unknown(nil)
	stream(b, broker(b), jetstream.StreamConfig{Subjects: []string{subject}, MaxMsgs: 500_000})
	p := open(b, nats.Config{})
	if err := p.Ping(context.Background()); err != nil {
		b.Fatal(err)
	}
	run := time.Now().UnixNano()
	payload := bytes.Repeat([]byte("x"), 512)
	var rounds sync.WaitGroup
	before := cpu(b)
	b.ReportAllocs()
	b.ResetTimer()
	for call := range calls {
		rounds.Go(func() {
			batch := make([]publisher.Message, size)
			for n := call; n < b.N; n += calls {
				for i := range batch {
					id := fmt.Sprintf("%018x-%08x-%04x", run, n, i)
					batch[i] = publisher.Message{
						ID: id, DedupID: id, Topic: subject, Payload: payload, Type: "application/json",
						Headers: []publisher.Header{{Name: "tenant", Value: "0123456789abc"}, {Name: "traceparent", Value: id[:32]}},
					}
					if keys > 0 {
						batch[i].Key = fmt.Appendf(nil, "key-%d-%d", call, i%keys)
					}
				}
				for i, err := range p.Publish(context.Background(), batch) {
					if err != nil {
						b.Errorf("message %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	rounds.Wait()
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N*size), "cpu-ns/msg")
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "msg/s")
}

// cpu returns the processor time that the process has used so far. On a busy machine it is more meaningful than the
// rate.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
