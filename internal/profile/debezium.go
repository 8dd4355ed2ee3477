package profile

import (
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// debezium writes what Debezium's outbox event router writes at its defaults: the key, the header id,
// the payload untouched, and no content type. The row's headers, which a table in Debezium's layout
// does not have, follow; OUTBOX_COLUMNS can place columns there, as
// table.fields.additional.placement does.
//
// It differs where Debezium loses data: a NULL payload is an empty body on every broker, where Debezium
// Server drops the message on NATS and sends the text "default" to RabbitMQ. The header id is the bare
// id, as under Kafka Connect; Debezium Server makes a JSON object of schema and payload of it unless
// told otherwise.
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
