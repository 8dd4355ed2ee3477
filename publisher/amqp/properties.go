package amqp

import (
	"errors"
	"strconv"
	"strings"
	"unsafe"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	maxShortString = 255 // maximum bytes in AMQP's short strings
	// headerFrameFixed is the size of the content header frame without its strings: framing 8, class, weight and body
	// size 12, flags 2, table length 4, delivery mode 1, priority 1, timestamp 8.
	headerFrameFixed = 8 + 12 + 2 + 4 + 1 + 1 + 8
)

// A writer converts messages to the form that the client library sends. It is used by one goroutine. The table of
// headers is a quarter of the client's processor time for a message, so it is used again, and texts that repeat are not
// boxed again.
type writer struct {
	frameMax int           // frame_max of the connection in bytes; 0 for no limit
	user     string        // user that has logged in; empty if not known
	table    amqp091.Table // reused for each message
	values   []any         // texts of the last message's headers by position, because many repeat
}

// forget drops the references to the last message.
func (w *writer) forget() {
	clear(w.table)
	clear(w.values)
}

// text returns a header's text as a value for a table. This allocates, unless the last message's header at this
// position had the same text.
func (w *writer) text(position int, text string) any {
	for len(w.values) <= position {
		w.values = append(w.values, nil)
	}
	if last, ok := w.values[position].(string); !ok || last != text {
		w.values[position] = text
	}
	return w.values[position]
}

// publishing returns the message as the library sends it. The next call overwrites its headers. A message that AMQP
// cannot carry is Permanent: on the wire it would end the connection for all calls.
//
// Persistent messages of durable queues survive a restart of the broker. The id is the property by which consumers
// recognise copies, and by which a returned message is recognised here. The time is that of the insert, in seconds.
func (w *writer) publishing(m *publisher.Message) (amqp091.Publishing, error) {
	if err := m.CheckHeaders(); err != nil {
		return amqp091.Publishing{}, err
	}
	p := amqp091.Publishing{
		DeliveryMode:  amqp091.Persistent,
		MessageId:     m.ID,
		ContentType:   m.ContentType(),
		CorrelationId: m.CorrelationID(),
		Headers:       w.table,
		Body:          m.Payload,
	}
	if m.Inserted.Unix() > 0 { // AMQP's timestamp is unsigned seconds
		p.Timestamp = m.Inserted
	}
	size, err := w.headers(m, &p)
	if err != nil {
		return p, err
	}
	// The library would end the connection for a longer text, and with it everything in flight on all channels.
	for _, s := range [...]struct{ what, value string }{
		{"exchange", m.Exchange},
		{"routing key", m.Topic},
		{"message id", m.ID},
		{"content type", p.ContentType},
		{"content encoding", p.ContentEncoding},
		{"correlation id", p.CorrelationId},
		{"reply to", p.ReplyTo},
		{"type", p.Type},
		{"app id", p.AppId},
		{"user id", p.UserId},
	} {
		if len(s.value) > maxShortString {
			return p, publisher.PermanentError("name too long", "the %s has %d bytes, AMQP allows %d", s.what,
				len(s.value), maxShortString)
		}
		size += 1 + len(s.value)
	}
	if strings.ContainsAny(m.Exchange, "\r\n") { // RabbitMQ looks for exchanges without it
		return p, publisher.PermanentError("illegal exchange", "the exchange %q holds a line break", m.Exchange)
	}
	size += headerFrameFixed + 1 + len(p.Expiration)
	// Bodies are split over frames, headers are not.
	if w.frameMax > 0 && size > w.frameMax {
		return p, publisher.PermanentError("headers too large",
			"headers and key take %d bytes, the connection's frame_max is %d", size,
			w.frameMax)
	}
	return p, nil
}

// headers fills the table, and the properties that headers of the row name. It returns the table's size in bytes.
func (w *writer) headers(m *publisher.Message, p *amqp091.Publishing) (size int, err error) {
	clear(w.table)
	fields := 0
	for i := range m.Headers {
		h := &m.Headers[i]
		if len(h.Name) > maxShortString {
			return 0, publisher.PermanentError("name too long", "a header name has %d bytes, AMQP allows %d",
				len(h.Name), maxShortString)
		}
		if strings.EqualFold(h.Name, publisher.HeaderContentType) {
			continue // it is the property
		}
		// A header that is null in the row's JSON is sent as the text null, and names no property.
		if null := h.JSON && h.Value == "null"; !null {
			if err := w.property(p, h); err != nil {
				return 0, err
			}
		}
		w.table[h.Name] = w.text(i, h.Value)
		fields++
		size += 1 + len(h.Name) + 5 + len(h.Value)
	}
	// AMQP has no key of its own, so consumers find it in a header.
	if m.Key != nil && !m.Bare {
		w.table[publisher.HeaderMessageKey] = asString(m.Key)
		fields++
		size += 1 + len(publisher.HeaderMessageKey) + 5 + len(m.Key)
	}
	// One of the two would be lost without a word.
	if len(w.table) != fields {
		return 0, publisher.PermanentError("header twice", "a header occurs twice, AMQP carries each name once")
	}
	return size, nil
}

// property writes a header into the property that it names, if it names one: in any case, with _ or - between its
// words. Values that make RabbitMQ close the channel fail their row here. A header remains a header as well, for
// consumers that look there.
func (w *writer) property(p *amqp091.Publishing, h *publisher.Header) error {
	switch strings.ToLower(h.Name) {
	case "type":
		p.Type = h.Value
	case "app_id", "app-id":
		p.AppId = h.Value
	case "content_encoding", "content-encoding":
		p.ContentEncoding = h.Value
	case "reply_to", "reply-to":
		if h.Value == "amq.rabbitmq.reply-to" { // RabbitMQ closes the channel under all that is in flight on it
			return publisher.PermanentError("illegal reply_to",
				"the row's header %s is %s, which is for consumers on the same channel: name a queue", h.Name, h.Value)
		}
		p.ReplyTo = h.Value
	case "user_id", "user-id":
		if w.user != "" && h.Value != w.user { // RabbitMQ closes the channel
			return publisher.PermanentError("illegal user_id",
				"the row's header %s is %.40q, RabbitMQ takes that of the user who publishes only: "+
					"leave it out, or write it under another name", h.Name, h.Value)
		}
		p.UserId = h.Value
	case "priority":
		n, err := strconv.ParseUint(h.Value, 10, 8)
		if err != nil {
			return publisher.PermanentError("illegal priority",
				"the row's header priority is %.40q, AMQP takes a number from 0 to 255", h.Value)
		}
		p.Priority = uint8(n)
	case "expiration":
		// RabbitMQ closes the channel for any other value.
		if _, err := strconv.ParseUint(h.Value, 10, 32); err != nil {
			return publisher.PermanentError("illegal expiration",
				"the row's header expiration is %.40q, RabbitMQ takes milliseconds from 0 to 4294967295", h.Value)
		}
		p.Expiration = h.Value
	}
	return nil
}

// CheckHeader returns the reason why AMQP cannot carry a header, or why a header that was written for another broker
// must not be carried. It is asked for dead letters and notices, whose headers come from rows of other destinations:
// those that it refuses are left out and named.
func (p *Publisher) CheckHeader(h *publisher.Header) error {
	if name := strings.ToLower(h.Name); name == "user_id" || name == "user-id" {
		return errors.New("the header names the user who publishes, which another broker may know under another name")
	}
	w := writer{table: amqp091.Table{}}
	_, err := w.publishing(&publisher.Message{Headers: []publisher.Header{*h}})
	return err
}

// asString returns a key of the caller as a string without copying it. The string is valid for as long as the call
// lasts.
func asString(key []byte) string {
	//nolint:gosec // saves a copy of each key; nobody changes it meanwhile
	return unsafe.String(unsafe.SliceData(key), len(key))
}
