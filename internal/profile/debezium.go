package profile

import (
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// debezium writes what Debezium's outbox event router writes with its defaults: the key, the header id, the payload
// unchanged, and no content type. The row's headers follow, which a table in Debezium's layout does not have; the
// mapping of columns can place columns there, like table.fields.additional.placement.
// It differs where Debezium loses data: a NULL payload is an empty body on every broker, whereas Debezium Server drops
// the message on NATS and sends the text "default" to RabbitMQ. The header id is the bare id, as under Kafka Connect;
// by default Debezium Server makes it a JSON object of schema and payload.
func debezium(to publisher.Protocol, tombstones bool) Profile {
	const headerID = "id"
	return func(m *publisher.Message, _ int64) error {
		headers := make([]publisher.Header, 0, 1+len(m.Headers))
		headers = append(headers, publisher.Header{Name: headerID, Value: m.ID})
		for _, h := range m.Headers {
			if strings.EqualFold(h.Name, headerID) {
				return reserved(h.Name, Debezium)
			}
			headers = append(headers, h)
		}
		m.Bare, m.Headers, m.Type = true, headers, ""
		if m.Payload == nil && (to != publisher.ProtocolKafka || !tombstones) {
			m.Payload = []byte{}
		}
		return nil
	}
}
