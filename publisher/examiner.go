package publisher

import (
	"context"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// An Examiner is a [Publisher] that can report on its broker in more detail than [Publisher.Ping]: whether the topics
// exist, and whether an acknowledgement means what it says.
type Examiner interface {
	// Examine inspects the connection and the given addresses, and connects first if needed. The addresses are a sample
	// of those that pending rows have, without duplicates, and may be empty. Examine publishes nothing and changes
	// nothing at the broker. A broker that cannot be reached, or that does not let this client look, is a finding too.
	// When ctx ends, Examine returns what it has found so far.
	Examine(ctx context.Context, addresses []Address) []finding.Finding
}
