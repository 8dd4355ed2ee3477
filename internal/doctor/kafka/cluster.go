package kafka

import (
	"context"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Cluster is what a publisher knows of its cluster, with functions to ask the cluster. Errors say what to change,
// without secrets.
type Cluster struct {
	Brokers    []string // the configured addresses
	Encrypted  bool     // TLS is configured
	LogsIn     bool     // SASL is configured
	BatchBytes int      // size of the largest batch that is sent

	// CheckAddress returns why no message can have the address, nil if one can.
	CheckAddress func(publisher.Address) error
	// Ask asks any broker, and connects first if necessary.
	Ask func(ctx context.Context, question protocol.Message) (protocol.Message, error)
	// Reach asks each broker that the cluster names for a sign of life. It returns, by address, why a broker does not
	// answer.
	Reach func(ctx context.Context) map[string]error
	// Idempotent returns why the cluster does not give the publisher a producer id, by which a batch that is sent again
	// is appended only once.
	Idempotent func(ctx context.Context) error
}
