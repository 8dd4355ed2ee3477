package kafka

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A counting connection adds up the bytes that are written.
type counting struct {
	net.Conn
	written *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// A record above its topic's limit is refused without being sent, however often it comes, and the answer names both
// sizes. Once the limit is raised, the topic takes the record.
func TestRecordAboveTheLimitStaysOffTheWire(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic(t, 1)
	var written atomic.Int64
	p := New(Config{Brokers: h.brokers, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return counting{conn, &written}, err
	}})
	t.Cleanup(func() { _ = p.Close() })
	large := []publisher.Message{{ID: "large", Topic: topic, Payload: make([]byte, 5<<20)}, {ID: "small", Topic: topic}}
	for range 3 {
		answers := answersOf(t, p, large)
		if publisher.ClassOf(answers[0]) != publisher.Permanent || answers[1] != nil {
			t.Fatalf("the answers are %v", answers)
		}
		for _, part := range []string{"52429", "max.message.bytes is 1048588", "raise it"} {
			if !strings.Contains(answers[0].Error(), part) {
				t.Errorf("%q does not say %q", answers[0], part)
			}
		}
	}
	if n := written.Load(); n > 1<<20 {
		t.Errorf("%d bytes were written", n)
	}
	_, err := h.client.AlterConfigs(t.Context(), &kafkago.AlterConfigsRequest{Resources: []kafkago.AlterConfigRequestResource{{
		ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic,
		Configs: []kafkago.AlterConfigRequestConfig{{Name: sizeSetting, Value: "10000000"}, {Name: "retention.ms", Value: "-1"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	// A broker applies the change a moment after it has answered.
	eventually(t, func() bool { return answersOf(t, p, large)[0] == nil })
}
