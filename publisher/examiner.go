package publisher

import (
	"context"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// An Examiner is a [Publisher] that can say more about its broker than whether it answers: whether
// the topics exist, and whether an acknowledgement means what it says.
type Examiner interface {
	// Examine looks at the connection and at these addresses (of rows that wait, a sample without
	// doubles, possibly none), connecting first if need be. It
	// publishes nothing and changes nothing at the broker. A broker that cannot be reached, or that
	// does not let this client look, is a finding too. It returns what it has when ctx ends.
	Examine(ctx context.Context, addresses []Address) []finding.Finding
}
