package nats_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// A subject that no stream takes is not taken for one whose stream's servers are away: what rows wait for is what
// operators need to know.
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
	}
}
