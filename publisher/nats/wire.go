package nats

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Headers that JetStream reads.
const (
	headerDedup  = "Nats-Msg-Id"          // id by which a stream recognises a message that it already holds
	headerStream = "Nats-Expected-Stream" // the only stream that may take the message
)

// A wire builds messages, all in the same memory: nats.go copies them before PublishMsg returns. Of the publisher's
// own, a message costs two allocations: the reply subject and the key as text.
type wire struct {
	stream  string // expected stream, or ""
	message nats.Msg
	header  nats.Header
	values  []string // memory for the slices in header
}

// check returns the answer for a message that NATS cannot carry. What NATS cannot carry fails here, alone: a line break
// in a header would make the server drop the message without an answer.
func check(m *publisher.Message) error {
	if err := m.CheckHeaders(); err != nil {
		return err
	}
	// Without an id, a message that is sent again would be stored twice.
	if m.DedupID == "" || !legalValue(m.DedupID) || !legalValue(m.ID) {
		return publisher.PermanentError("illegal id",
			"NATS cannot carry the id %q: it is empty, has a line break, or spaces around it", m.ID)
	}
	// The key goes into a header, because NATS has no place of its own for it.
	if !m.Bare && !legalValue(m.Key) {
		return publisher.PermanentError("illegal key",
			"NATS cannot carry the key %q: it has a line break, or spaces around it", m.Key)
	}
	for i := range m.Headers {
		if err := checkHeader(&m.Headers[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkHeader returns the answer for a message with a header that NATS cannot carry.
func checkHeader(h *publisher.Header) error {
	if !legalName(h.Name) {
		return publisher.PermanentError("illegal header",
			"NATS cannot carry the header name %q: it is empty or has characters that an HTTP header may not have",
			h.Name)
	}
	if !legalValue(h.Value) {
		return publisher.PermanentError("illegal header",
			"NATS cannot carry the value of header %q: it has a line break, or spaces around it", h.Name)
	}
	return nil
}

// CheckHeader returns the reason why NATS cannot carry a header, or why a stream for which the row was not written may
// not take it. It is asked for dead letters and notices, whose headers come from rows of other destinations: those that
// it refuses are left out and named.
func (p *Publisher) CheckHeader(h *publisher.Header) error {
	if isTTL(h) {
		return errors.New("the header says how long another stream is to keep the message")
	}
	return checkHeader(h)
}

// isTTL reports whether the header is the row's own lifetime in the stream, in any spelling.
func isTTL(h *publisher.Header) bool { return strings.EqualFold(h.Name, publisher.HeaderNATSTTL) }

// encode returns the message to send, valid until the next call. An error is the message's answer. With
// Nats-Expected-Stream, another stream that takes the subject refuses the message (error 10060), so that a subject that
// was moved by mistake holds rows and does not send them where nobody reads them.
func (w *wire) encode(m *publisher.Message, reply string) (*nats.Msg, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	clear(w.header)
	w.values = w.values[:0]
	w.add(headerDedup, m.DedupID)
	if w.stream != "" {
		w.add(headerStream, w.stream)
	}
	if !m.Bare {
		w.add(publisher.HeaderMessageID, m.ID)
	}
	if m.Key != nil && !m.Bare {
		w.add(publisher.HeaderMessageKey, string(m.Key))
	}
	typed := false
	for i := range m.Headers {
		h := &m.Headers[i]
		typed = typed || strings.EqualFold(h.Name, publisher.HeaderContentType)
		if isTTL(h) { // servers recognise the header only in the spelling of HeaderNATSTTL
			w.add(publisher.HeaderNATSTTL, h.Value)
			continue
		}
		w.add(h.Name, h.Value)
	}
	if !typed && m.Type != "" && !m.Bare {
		w.add(publisher.HeaderContentType, m.Type)
	}
	w.message.Subject, w.message.Reply, w.message.Header, w.message.Data = m.Topic, reply, w.header, m.Payload
	return &w.message, nil
}

// add appends a header. A name may occur more than once. The slices of the header share one array. Their capacity ends
// with their length, so that a second value of a name never overwrites the value of the next.
func (w *wire) add(name, value string) {
	if earlier, ok := w.header[name]; ok {
		w.header[name] = append(earlier[:len(earlier):len(earlier)], value)
		return
	}
	n := len(w.values)
	w.values = append(w.values, value)
	w.header[name] = w.values[n : n+1 : n+1]
}

// forget drops the references to the last message. The array is cleared up to its capacity: what an earlier, larger
// message has left beyond the length would otherwise stay in memory.
func (w *wire) forget() {
	clear(w.header)
	clear(w.values[:cap(w.values)])
	w.message = nats.Msg{}
}

// legalName allows the characters of an HTTP header name. The NATS header specification (ADR-4) allows a few more, but
// nats.go does not.
func legalName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

// legalValue reports whether a value arrives as it was sent: on one line, and without spaces around it, which servers
// and clients trim. If two ids differ only in such spaces, one row would be taken for a duplicate of the other.
func legalValue[T string | []byte](value T) bool {
	if len(value) == 0 {
		return true
	}
	for i := range len(value) {
		if c := value[i]; c == '\r' || c == '\n' {
			return false
		}
	}
	first, last := value[0], value[len(value)-1]
	return first != ' ' && first != '\t' && last != ' ' && last != '\t'
}
