package amqp

import (
	"cmp"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	maxShortString = 255 // bytes in AMQP's short strings
	// headerFrameFixed is what the content header frame takes besides its strings: framing 8, class,
	// weight and body size 12, flags 2, table length 4, delivery mode 1, timestamp 8.
	headerFrameFixed = 8 + 12 + 2 + 4 + 1 + 8
)

// publishing returns the message as it goes out, its headers in table, which is overwritten.
// What AMQP cannot carry is Permanent: on the wire it would end the connection for everybody.
func publishing(m *publisher.Message, table amqp091.Table, frameMax int) (amqp091.Publishing, error) {
	if err := cmp.Or(m.CheckHeaders(), checkExchangeName(m.Exchange)); err != nil {
		return amqp091.Publishing{}, err
	}
	p := amqp091.Publishing{
		DeliveryMode:  amqp091.Persistent,
		MessageId:     m.ID,
		ContentType:   m.ContentType(),
		CorrelationId: m.CorrelationID(),
		Headers:       table,
		Body:          m.Payload,
	}
	if m.Inserted.Unix() > 0 { // AMQP's timestamp is unsigned seconds
		p.Timestamp = m.Inserted
	}
	size := headerFrameFixed
	for _, s := range [...]struct{ what, value string }{
		{"routing key", m.Topic}, {"message id", m.ID},
		{"content type", p.ContentType}, {"correlation id", p.CorrelationId},
	} {
		if len(s.value) > maxShortString {
			return p, publisher.PermanentError("name too long", "the %s has %d bytes, AMQP allows %d", s.what, len(s.value), maxShortString)
		}
		size += 1 + len(s.value)
	}

	clear(table)
	fields := 0
	for i := range m.Headers {
		h := &m.Headers[i]
		if len(h.Name) > maxShortString {
			return p, publisher.PermanentError("name too long", "a header name has %d bytes, AMQP allows %d", len(h.Name), maxShortString)
		}
		if strings.EqualFold(h.Name, publisher.HeaderContentType) {
			continue // is the property
		}
		table[h.Name] = h.Value
		fields++
		size += 1 + len(h.Name) + 5 + len(h.Value)
	}
	if m.Key != nil && !m.Bare {
		table[publisher.HeaderMessageKey] = string(m.Key)
		fields++
		size += 1 + len(publisher.HeaderMessageKey) + 5 + len(m.Key)
	}
	if len(table) != fields {
		return p, publisher.PermanentError("header twice", "a header occurs twice, AMQP carries each name once")
	}
	// Bodies are split over frames, headers are not.
	if frameMax > 0 && size > frameMax {
		return p, publisher.PermanentError("headers too large", "headers and key take %d bytes, the connection's frame_max is %d", size, frameMax)
	}
	return p, nil
}

// checkExchangeName returns the answer for messages that name an exchange which AMQP cannot name.
func checkExchangeName(name string) error {
	if len(name) > maxShortString {
		return publisher.PermanentError("name too long", "the exchange has %d bytes, AMQP allows %d", len(name), maxShortString)
	}
	for i := range len(name) {
		if name[i] == '\r' || name[i] == '\n' {
			return publisher.PermanentError("illegal exchange", "the exchange %q holds a line break", name)
		}
	}
	return nil
}
