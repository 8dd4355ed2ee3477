package kafka

import "github.com/outbox-relay/outbox-relay/publisher"

var _ publisher.Speaker = (*Publisher)(nil)

// Protocol returns [publisher.ProtocolKafka].
func (p *Publisher) Protocol() publisher.Protocol { return publisher.ProtocolKafka }
