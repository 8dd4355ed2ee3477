package amqp_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

// BenchmarkAllocations separates the publisher's own allocations for each message from those of the client library, by
// the place in the code where each was made. One operation is one message with a key of its own and two headers, one of
// them with a value of its own. The number of operations must be a multiple of 1000.
func BenchmarkAllocations(b *testing.B) {
	h := newHarness(b, "", amqp091.QueueTypeClassic)
	topic := h.Unknown(nil)
	h.create(b, topic, nil)
	p := h.open(b, nil)
	defer p.Close()
	messages := benchMessages(topic)
	for i := range messages {
		messages[i].Key = fmt.Appendf(nil, "customer-%d", i)
		messages[i].Headers[1].Value = fmt.Sprintf("00-4bf92f3577b34da6a3ce929d%08x", i)
	}
	publish := func() {
		for _, err := range p.Publish(b.Context(), messages) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	publish() // connects
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := allocations()
	n := 0
	for b.Loop() {
		if n%benchBatch == 0 {
			publish()
		}
		n++
	}
	after := allocations()
	published := float64((n + benchBatch - 1) / benchBatch * benchBatch)
	own, library := float64(after["own"]-before["own"])/published, float64(after["library"]-before["library"])/published
	b.ReportMetric(own, "own-allocs/op")
	b.ReportMetric(library, "library-allocs/op")
	if n >= benchBatch && own >= 3 {
		b.Errorf("%.2f allocations of our own for each message, want less than 3", own)
	}
}

// allocations counts all allocations so far by the package that made them: this one, or the client library.
func allocations() map[string]int64 {
	runtime.GC() // publishes what the profile has gathered
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 10_000)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("more places than records")
	}
	counts := map[string]int64{}
	for i := range records[:n] {
		frames := runtime.CallersFrames(records[i].Stack())
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if strings.Contains(frame.Function, "/publisher/amqp.") {
				counts["own"] += records[i].AllocObjects
				break
			}
			if strings.Contains(frame.Function, "/amqp091-go.") {
				counts["library"] += records[i].AllocObjects
				break
			}
		}
	}
	return counts
}
