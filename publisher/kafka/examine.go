package kafka

import (
	"context"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"

	doctor "github.com/outbox-relay/outbox-relay/internal/doctor/kafka"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine implements [publisher.Examiner]: it examines the brokers, the login, the topics and what their
// acknowledgements guarantee.
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	return doctor.Examine(ctx, p.inspect(), p.names, addresses)
}

// inspect lends the publisher's connections for an inspection of the cluster. All questions go over the connections
// that rows use, so that a finding is about the same network, TLS and login.
func (p *Publisher) inspect() doctor.Cluster {
	return doctor.Cluster{
		Brokers: p.config.Brokers, Encrypted: p.config.TLS != nil, LogsIn: p.config.SASL != nil,
		BatchBytes:   maxBatchBytes,
		CheckAddress: func(to publisher.Address) error { return checkTopic(to.Topic) },
		Ask: func(ctx context.Context, question protocol.Message) (protocol.Message, error) {
			answer, err := p.cluster.ask(ctx, question, true)
			if layout, ok := answer.(*metadata.Response); ok && err == nil {
				p.cluster.learn(layout)
			}
			return answer, err
		},
		Reach: func(ctx context.Context) map[string]error {
			reached := map[string]error{}
			for _, b := range p.cluster.named() {
				_, reached[b.address] = p.cluster.askOf(ctx, []*broker{b}, &apiversions.Request{}, true)
			}
			return reached
		},
		Idempotent: func(ctx context.Context) error {
			_, err := p.producerID(ctx)
			return err
		},
	}
}

// named returns the brokers that the cluster names, or else the configured ones. The latter may be bootstrap addresses,
// such as a load balancer's.
func (c *cluster) named() []*broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.nodes) > 0 {
		return slices.Collect(maps.Values(c.nodes))
	}
	return slices.Collect(maps.Values(c.brokers))
}
