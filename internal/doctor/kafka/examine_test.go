package kafka

import (
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A topic that the user may not see is a finding, and is not examined further.
func TestHiddenTopic(t *testing.T) {
	t.Parallel()
	e := &examination{}
	if e.topic(&metadata.ResponseTopic{Name: "hidden", ErrorCode: int16(kafkago.TopicAuthorizationFailed)}) ||
		len(e.List) != 1 ||
		e.List[0].Severity != finding.Error || e.List[0].Check != inspect.Permission || e.List[0].Subject != "hidden" {
		t.Errorf("found %+v", e.List)
	}
}
