package kafka

import (
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A record above its topic's limit fails alone, and the answer names its size and the setting. Once the limit is
// raised, the topic takes the record.
func TestRecordAboveTheLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic(t, 1)
	p := New(Config{Brokers: h.brokers})
	t.Cleanup(func() { _ = p.Close() })
	large := []publisher.Message{{ID: "large", Topic: topic, Payload: make([]byte, 5<<20)}, {ID: "small", Topic: topic}}
	for range 3 {
		answers := answersOf(t, p, large)
		if publisher.ClassOf(answers[0]) != publisher.Permanent || answers[1] != nil {
			t.Fatalf("the answers are %v", answers)
		}
		for _, part := range []string{"52429", "raise its max.message.bytes"} {
			if !strings.Contains(answers[0].Error(), part) {
				t.Errorf("%q does not say %q", answers[0], part)
			}
		}
	}
	_, err := h.client.AlterConfigs(t.Context(),
		&kafkago.AlterConfigsRequest{Resources: []kafkago.AlterConfigRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafkago.AlterConfigRequestConfig{
				{Name: "max.message.bytes", Value: "10000000"},
				{Name: "retention.ms", Value: "-1"},
			},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	// A broker applies the change a moment after it has answered.
	eventually(t, func() bool { return answersOf(t, p, large)[0] == nil })
}
