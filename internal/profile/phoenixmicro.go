package profile

import (
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// phoenixMicro writes what the consumers of PhoenixMicro.Outbox read.
//   - AMQP: message_id, content_type and timestamp as properties, and the row's headers.
//   - NATS: the headers x-message-id, x-attempt and content-type, and the row's headers.
//   - Kafka: the id as the record's key and no headers. The partition is still chosen by the ordering
//     key, so that order is kept. The library's own consumer reads partition 0 only: give such a topic
//     one partition.
func phoenixMicro(to publisher.Protocol) Profile {
	const (
		headerID      = "x-message-id"
		headerAttempt = "x-attempt"
	)
	return func(m *publisher.Message, attempt int64) error {
		m.Bare = true
		switch to {
		case publisher.ProtocolAMQP:
			return nil
		case publisher.ProtocolNATS:
			headers := make([]publisher.Header, 0, 3+len(m.Headers))
			headers = append(headers, publisher.Header{Name: headerID, Value: m.ID},
				publisher.Header{Name: headerAttempt, Value: strconv.FormatInt(attempt, 10)})
			if _, own := m.Header(publisher.HeaderContentType); !own && m.Type != "" {
				headers = append(headers, publisher.Header{Name: publisher.HeaderContentType, Value: m.Type})
			}
			for _, h := range m.Headers {
				if strings.EqualFold(h.Name, headerID) || strings.EqualFold(h.Name, headerAttempt) {
					return reserved(h.Name, PhoenixMicro)
				}
				headers = append(headers, h)
			}
			m.Headers = headers
		default:
			m.WireKey, m.Headers = []byte(m.ID), nil
		}
		return nil
	}
}
