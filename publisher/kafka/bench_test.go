package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

const benchBatch = 1000

// benchMessages returns a batch of messages of 512 bytes, each with a key and two headers.
func benchMessages(topic string) []publisher.Message {
	payload := make([]byte, 512)
	rand.Read(payload)
	messages := make([]publisher.Message, benchBatch)
	for i := range messages {
		messages[i] = publisher.Message{
			ID: rand.Text(), Topic: topic, Key: fmt.Appendf(nil, "key-%012d", i), Payload: payload,
			Type: "application/json", Inserted: time.Now(), Headers: []publisher.Header{{Name: "tenant", Value: "north"}},
		}
	}
	return messages
}

// BenchmarkPublish publishes batches of 1000 to six partitions of the real broker, one call at a time. The allocations
// include those of kafka-go's encoding. BenchmarkEncode measures only this package's share, for the batches.
func BenchmarkPublish(b *testing.B) {
	h := newHarness(b)
	for _, partitions := range []int{1, 6, 48} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			p := h.open(b, publishertest.NewNetwork())
			messages := benchMessages(h.topic(b, partitions))
			publish := func() {
				for i, err := range p.Publish(context.Background(), messages) {
					if err != nil {
						b.Fatalf("message %d: %v", i, err)
					}
				}
			}
			publish()
			b.ReportAllocs()
			b.SetBytes(benchBatch * 512)
			for b.Loop() {
				publish()
			}
			b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// TestAllocations bounds what BenchmarkPublish shows: the allocations of a call, including those of the library, depend
// on the number of requests and partitions, not on the number of messages.
func TestAllocations(t *testing.T) { // not parallel: it counts the allocations of the process
	h := newHarness(t)
	p := h.open(t, publishertest.NewNetwork())
	messages := benchMessages(h.topic(t, 6))
	allocations := testing.AllocsPerRun(20, func() {
		for i, err := range p.Publish(context.Background(), messages) {
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
	})
	if t.Logf("%.0f allocations for %d messages", allocations, benchBatch); allocations > benchBatch/2 {
		t.Errorf("%.0f allocations for %d messages", allocations, benchBatch)
	}
}

// BenchmarkEncode encodes the batches that BenchmarkPublish sends.
func BenchmarkEncode(b *testing.B) {
	messages := benchMessages("topic")
	queue := make([]int32, benchBatch)
	for i := range queue {
		queue[i] = int32(i)
	}
	now := time.Now()
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer, _ = appendBatch(buffer, messages, queue, maxBatchBytes, producer{id: 7}, 0, clockAt(now))
		seal(buffer)
	}
	b.SetBytes(int64(len(buffer)))
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkCompress encodes the same batches with each codec. Half of each payload is noise.
func BenchmarkCompress(b *testing.B) {
	for _, name := range codecs[1:] {
		b.Run(name, func(b *testing.B) {
			p := New(Config{Compression: codecNamed(b, name)})
			messages := benchMessages("topic")
			queue := make([]int32, benchBatch)
			for i := range queue {
				queue[i] = int32(i)
				messages[i].Payload = append(text(256), messages[i].Payload[:256]...)
			}
			now := time.Now()
			size, plain := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				batch, _ := appendBatch(p.buffer(), messages, queue, maxBatchBytes, producer{id: 7}, 0, clockAt(now))
				plain = len(batch)
				batch = p.compress(batch)
				seal(batch)
				size = len(batch)
				p.recycle(batch)
			}
			b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "msgs/s")
			b.ReportMetric(float64(size)/float64(plain), "size-ratio")
		})
	}
}
