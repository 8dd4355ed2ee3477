package publisher

import (
	"strings"
	"time"
)

// A Message is one row of the outbox, ready to be sent. Its slices are read-only.
type Message struct {
	ID string // text form of the row's id; the message id on the wire
	// DedupID is what JetStream takes as Nats-Msg-Id, unique over everything in a stream: an id that is a uuid, or else
	// an identity of the database, which holds no slash, and behind a slash what is unique there.
	DedupID string
	// Source says where the row is from, as a URI reference: /DATABASE/SCHEMA.TABLE.
	Source   string
	Topic    string // Kafka topic, NATS subject or AMQP routing key, never checked before
	Exchange string // AMQP exchange; empty leaves it to the publisher, as do all that are not AMQP
	Key      []byte // ordering key; nil is no key and no order, an empty slice is a key
	Payload  []byte // nil for a NULL payload
	Headers  []Header
	Type     string    // content type of the payload, from the column's type
	Inserted time.Time // when the row was inserted; zero when the table does not say
	Time     time.Time // that the row gives its message, for brokers whose messages have one; zero leaves it to the publisher

	// Bare: a wire profile has written Headers, and they are all there is. The publisher adds no
	// header but what its broker itself needs (Nats-Msg-Id); properties, as AMQP has them, stay.
	Bare bool
	// WireKey is what consumers see as the record's key in place of Key, which decides order and
	// partition all the same; nil for Key itself.
	WireKey []byte
}

// An Address is where a message goes on its broker.
type Address struct {
	Topic    string // Kafka topic, NATS subject or AMQP routing key
	Exchange string // AMQP exchange; empty leaves it to the publisher, as do all that are not AMQP

	// Oldest is when the first of the rows that wait for it was inserted, for those who examine it; zero is not known.
	Oldest time.Time
}

// A Header is one of the row's own headers. Names and values are UTF-8; what a broker cannot carry
// it refuses as [Permanent].
type Header struct {
	Name, Value string
	// JSON: Value is the JSON text of a value that is not a string, for brokers whose headers have types.
	JSON bool
}

// RecordKey returns the key as consumers see it, for brokers whose messages have one.
func (m *Message) RecordKey() []byte {
	if m.WireKey != nil {
		return m.WireKey
	}
	return m.Key
}

// Names of the headers that the plain profile writes.
const (
	HeaderMessageID   = "message-id"
	HeaderMessageKey  = "message-key"
	HeaderContentType = "content-type"
)

// HeaderNATSTTL is the one header of JetStream's own that a row may have: after how long a stream drops the message.
const HeaderNATSTTL = "Nats-TTL"

// ContentType returns the row's own content-type header, else the type of its payload column.
func (m *Message) ContentType() string {
	if value, ok := m.Header(HeaderContentType); ok {
		return value
	}
	return m.Type
}

// CorrelationID returns the row's header correlation-id or correlation_id, or "".
func (m *Message) CorrelationID() string {
	if value, ok := m.Header("correlation-id"); ok {
		return value
	}
	value, _ := m.Header("correlation_id")
	return value
}

// Header returns the value of the row's header of that name in any case.
func (m *Message) Header(name string) (string, bool) {
	for i := range m.Headers {
		if h := &m.Headers[i]; len(h.Name) == len(name) && strings.EqualFold(h.Name, name) {
			return h.Value, true
		}
	}
	return "", false
}

// Size returns about how many bytes the message takes on the wire, without the broker's framing.
func (m *Message) Size() int {
	size := len(m.ID) + len(m.Topic) + len(m.RecordKey()) + len(m.Payload)
	for i := range m.Headers {
		size += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return size
}

// CheckHeaders returns a [Permanent] error when a row's header has a name that steers a broker
// (Nats-* but for [HeaderNATSTTL], CC, BCC) or that the relay writes itself (message-id, message-key; not in a bare message,
// whose profile has seen to that). Every publisher asks it, whatever its broker, so that a row means
// the same everywhere.
func (m *Message) CheckHeaders() error {
	for i := range m.Headers {
		name := m.Headers[i].Name
		switch {
		case name == "CC", name == "BCC",
			len(name) >= 5 && strings.EqualFold(name[:5], "Nats-") && !strings.EqualFold(name, HeaderNATSTTL),
			!m.Bare && (strings.EqualFold(name, HeaderMessageID) || strings.EqualFold(name, HeaderMessageKey)):
			return PermanentError("reserved header", "the header name %q is reserved: rename it in the row's headers", name)
		}
	}
	return nil
}
