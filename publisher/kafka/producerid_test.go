package kafka

import (
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A broker that has just started has no producer ids for a moment.
func TestProducerIDsRunShort(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	asked := 0
	f.set(func() {
		f.identities = func() kafkago.Error {
			if asked++; asked < 4 {
				return kafkago.GroupLoadInProgress
			}
			return 0
		}
	})
	expect(t, "after some tries", publish(t, p, rows("t", 0, 1, "a")), ok)

	p = f.open()
	f.set(func() { f.identities = func() kafkago.Error { return kafkago.GroupLoadInProgress } })
	answer := answersOf(t, p, rows("t", 0, 1, "b"))[0]
	if publisher.ClassOf(answer) != down || publisher.ScopeOf(answer) != publisher.ScopeDestination {
		t.Errorf("without producer ids: %v", answer)
	}
	expect(t, "log", f.log("t", 0), "a")
}

// Nothing is sent without a producer id, which could make copies. Rights that are granted while the relay runs take
// effect without a restart.
func TestWithoutIdempotence(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.identities = func() kafkago.Error { return kafkago.ClusterAuthorizationFailed }
	p := f.open()
	messages := rows("t", 0, 1, "a", "b")
	for _, err := range answersOf(t, p, messages) {
		if publisher.ClassOf(err) != down || publisher.ScopeOf(err) != publisher.ScopeDestination ||
			!strings.Contains(err.Error(), "WriteDataIdempotently") {
			t.Errorf("refused: %v", err)
		}
	}
	f.set(func() { f.identities = nil })
	expect(t, "granted", publish(t, p, messages), ok, ok)
	expect(t, "log", f.log("t", 0), "a", "b")
}

// The same holds for a server that does not know the request at all.
func TestIdempotenceIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.unknown = protocol.InitProducerId
	expect(t, "answers", publish(t, f.open(), rows("t", 0, 1, "a")), down)
	expect(t, "log", f.log("t", 0))
}
