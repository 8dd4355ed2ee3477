package nats_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// JetStream is asked about a subject that no stream takes, and its answer comes when the call has ended. It is not taken for
// silent until the next call reads the answer: whether rows wait for a stream or for a server is what operators need to know.
func TestMissingStreamsAreNoOutage(t *testing.T) {
	p := open(t, nats.Config{})
	p.BePatient(patience)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 20 {
		id := rand.Text()
		expect(t, p.Publish(ctx, []publisher.Message{{ID: id, DedupID: id, Topic: harness{}.Unknown(t)}}), publisher.Topology)
		for tick := time.Tick(time.Millisecond); p.Asking(); <-tick {
			if ctx.Err() != nil {
				t.Fatal("the answer to a question is not read before the next call")
			}
		}
	}
}
