package profile

import (
	"slices"
	"strconv"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// phoenixMicro writes what the consumers of PhoenixMicro.Outbox read.
//   - AMQP: message_id, content_type and timestamp as properties, and the row's headers.
//   - NATS: the headers x-message-id, x-attempt and content-type, and the row's headers.
//   - Kafka: the id as the record's key and no headers. The partition is still chosen by the ordering
//     key, so that order is kept. The library's own consumer reads partition 0 only: give such a topic
//     one partition.
func phoenixMicro(to publisher.Protocol, _ Options) Profile {
	return func(m *publisher.Message, attempt int64) error {
		m.Bare = true
		switch to {
		case publisher.ProtocolAMQP:
		case publisher.ProtocolNATS:
			if _, own := m.Header(publisher.HeaderContentType); !own && m.Type != "" {
				m.Headers = slices.Insert(slices.Clone(m.Headers), 0, publisher.Header{
					Name: publisher.HeaderContentType, Value: m.Type,
				})
			}
			return prepend(m, PhoenixMicro, publisher.Header{Name: "x-message-id", Value: m.ID},
				publisher.Header{Name: "x-attempt", Value: strconv.FormatInt(attempt, 10)})
		default:
			m.WireKey, m.Headers = []byte(m.ID), nil
		}
		return nil
	}
}
