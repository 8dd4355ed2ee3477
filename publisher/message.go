package publisher

import (
	"strings"
	"time"
)

// A Message is one row of the outbox, ready to be sent. Its slices are read-only.
type Message struct {
	ID string // text form of the row's id; the message id on the wire
	// DedupID is the Nats-Msg-Id for JetStream, unique among all messages of a stream. It is the row's id if that is a
	// UUID. Otherwise it is an identity of the database, which holds no slash, then a slash, then a value that is
	// unique in that database.
	DedupID string
	// Source is the origin of the row as a URI reference: /DATABASE/SCHEMA.TABLE.
	Source   string
	Topic    string // Kafka topic, NATS subject or AMQP routing key; not validated before Publish
	Exchange string // AMQP exchange; empty means the publisher's default, and so does any exchange that is not AMQP's
	Key      []byte // ordering key; nil means no key and no order; an empty slice is a key
	Payload  []byte // nil for a NULL payload
	Headers  []Header
	Type     string    // content type of the payload, from the column's type
	Inserted time.Time // when the row was inserted; zero when the table does not say
	// Time is the time that the row gives its message, for brokers whose messages have one. If it is zero, the
	// publisher chooses the time.
	Time time.Time

	// Bare is set when a wire profile has written Headers completely. The publisher then adds no header except one that
	// its broker needs (Nats-Msg-Id). Properties, as in AMQP, are still set.
	Bare bool
	// WireKey is the record's key as consumers see it, or nil if that is Key. Order and partition follow Key in either
	// case.
	WireKey []byte
}

// An Address is the place on a broker to which a message is sent.
type Address struct {
	Topic    string // Kafka topic, NATS subject or AMQP routing key
	Exchange string // AMQP exchange; empty means the publisher's default, and so does any exchange that is not AMQP's
}

// A Header is one of the row's own headers. Names and values are UTF-8. A publisher answers [Permanent] for a header
// that its broker cannot carry.
type Header struct {
	Name, Value string
	// JSON is set if Value is the JSON text of a value that is not a string.
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

// HeaderNATSTTL is the only one of JetStream's own headers that a row may have: the time after which a stream drops the
// message.
const HeaderNATSTTL = "Nats-TTL"

// ContentType returns the row's own content-type header, or else the type of its payload column.
func (m *Message) ContentType() string {
	if value, ok := m.Header(HeaderContentType); ok {
		return value
	}
	return m.Type
}

// CorrelationID returns the row's correlation-id or correlation_id header, or "" if it has neither.
func (m *Message) CorrelationID() string {
	if value, ok := m.Header("correlation-id"); ok {
		return value
	}
	value, _ := m.Header("correlation_id")
	return value
}

// Header returns the value of the row's header with the given name. Case does not matter.
func (m *Message) Header(name string) (string, bool) {
	for i := range m.Headers {
		if h := &m.Headers[i]; len(h.Name) == len(name) && strings.EqualFold(h.Name, name) {
			return h.Value, true
		}
	}
	return "", false
}

// Size returns the approximate number of bytes that the message takes on the wire, without the broker's framing.
func (m *Message) Size() int {
	size := len(m.ID) + len(m.Topic) + len(m.RecordKey()) + len(m.Payload)
	for i := range m.Headers {
		size += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return size
}

// CheckHeaders returns a [Permanent] error if a header of the row has a reserved name. Reserved are names that control
// a broker (CC, BCC, and Nats-* except [HeaderNATSTTL]) and names that the relay writes itself (message-id,
// message-key). The latter are not checked in a bare message, because its profile has handled them. Every publisher
// calls CheckHeaders, whatever its broker, so that a row means the same everywhere.
func (m *Message) CheckHeaders() error {
	for i := range m.Headers {
		name := m.Headers[i].Name
		switch {
		case name == "CC", name == "BCC",
			len(name) >= 5 && strings.EqualFold(name[:5], "Nats-") && !strings.EqualFold(name, HeaderNATSTTL),
			!m.Bare && (strings.EqualFold(name, HeaderMessageID) || strings.EqualFold(name, HeaderMessageKey)):
			return PermanentError("reserved header", "the header name %q is reserved: rename it in the row's headers",
				name)
		}
	}
	return nil
}
