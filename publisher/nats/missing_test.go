package nats_test

import (
	"context"
	"crypto/rand"
	"strings"
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
	for i := range 20 {
		id, topic := rand.Text(), harness{}.Unknown(t)
		if i%5 == 1 { // a server would end the connection if the subject were in its question more than once
			topic += strings.Repeat("x", 3000)
		}
		expect(t, p.Publish(ctx, []publisher.Message{{ID: id, DedupID: id, Topic: topic}}), publisher.Topology)
		for tick := time.Tick(time.Millisecond); p.Asking(); <-tick {
			if ctx.Err() != nil {
				t.Fatal("the answer to a question is not read before the next call")
			}
		}
	}
}
