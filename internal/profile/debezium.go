package profile

import "github.com/outbox-relay/outbox-relay/publisher"

// debezium writes what Debezium's outbox event router writes with its defaults: the key, the header id, the payload
// unchanged, and no content type. The row's headers follow, which a table in Debezium's layout does not have; the
// mapping of columns can place columns there, like table.fields.additional.placement.
// It differs where Debezium loses data: a NULL payload is an empty body on every broker, whereas Debezium Server drops
// the message on NATS and sends the text "default" to RabbitMQ. The header id is the bare id, as under Kafka Connect;
// by default Debezium Server makes it a JSON object of schema and payload.
func debezium(to publisher.Protocol, o Options) Profile {
	return func(m *publisher.Message, _ int64) error {
		if err := prepend(m, Debezium, publisher.Header{Name: "id", Value: m.ID}); err != nil {
			return err
		}
		m.Bare, m.Type = true, ""
		if m.Payload == nil && (to != publisher.ProtocolKafka || !o.Tombstones) {
			m.Payload = []byte{}
		}
		return nil
	}
}
