package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// cloudEvents writes CloudEvents 1.0 in binary content mode: the payload is the event's data, unchanged, and the
// attributes are headers named according to the broker's protocol binding.
//   - Kafka: ce_id and so on; datacontenttype is the header content-type.
//   - NATS: ce-id and so on, including datacontenttype, with percent-encoded values. Binary mode is in
//     the binding since its version 1.0.3, which is a working draft.
//   - AMQP: application properties, which are the headers of AMQP 0-9-1, named cloudEvents:id and so on,
//     the only form in version 1.0.2 of the binding; datacontenttype is the property content_type.
//
// id is the row's id, type its topic, source is configured or otherwise the row's origin, time is when the row was
// inserted, and partitionkey is its key. A row's header ce_NAME (or with the broker's own prefix) sets the attribute
// NAME, except for id and specversion. Its other headers are sent unchanged. traceparent and tracestate also become
// attributes of the same name (the extension Distributed Tracing).
// A row whose content type is application/cloudevents… already holds an event. It is sent unchanged, in structured
// mode.
func cloudEvents(to publisher.Protocol, o Options) Profile {
	prefix := cmp.Or(map[publisher.Protocol]string{
		publisher.ProtocolNATS: "ce-", publisher.ProtocolAMQP: "cloudEvents:",
	}[to], "ce_")
	return func(m *publisher.Message, _ int64) error {
		contentType := m.ContentType()
		if strings.HasPrefix(strings.ToLower(contentType), "application/cloudevents") {
			return structured(m, to, contentType)
		}
		e := event{attributes: append(make([]publisher.Header, 0, 10),
			publisher.Header{Name: "specversion", Value: "1.0"}, publisher.Header{Name: "id", Value: m.ID},
			publisher.Header{Name: "source", Value: cmp.Or(o.Source, m.Source)},
			publisher.Header{Name: "type", Value: m.Topic},
		)}
		if !m.Inserted.IsZero() {
			e.set("time", m.Inserted.UTC().Format(time.RFC3339Nano))
		}
		if len(m.Key) > 0 { // an attribute cannot hold an empty key
			e.set("partitionkey", string(m.Key))
		}
		if contentType != "" {
			e.set(dataContentType, contentType)
		}
		if err := e.take(m.Headers); err != nil {
			return err
		}
		headers := make([]publisher.Header, 0, len(e.attributes)+len(e.others))
		m.Type = ""
		for _, a := range e.attributes {
			switch {
			case !legalAttribute(a.Value):
				return publisher.PermanentError("illegal attribute", "the CloudEvents attribute %s cannot be %.128q: "+
					"it is empty or has a control character", a.Name, a.Value)
			case a.Name == dataContentType && to == publisher.ProtocolAMQP:
				m.Type = a.Value
			case a.Name == dataContentType && to != publisher.ProtocolNATS:
				headers = append(headers, publisher.Header{Name: publisher.HeaderContentType, Value: a.Value})
			case to == publisher.ProtocolNATS:
				headers = append(headers, publisher.Header{Name: prefix + a.Name, Value: percentEncode(a.Value)})
			default:
				headers = append(headers, publisher.Header{Name: prefix + a.Name, Value: a.Value})
			}
		}
		m.Bare, m.Headers = true, append(headers, e.others...)
		return nil
	}
}

const dataContentType = "datacontenttype"

// structured sends an event in structured mode unchanged, with the one header that marks it.
func structured(m *publisher.Message, to publisher.Protocol, contentType string) error {
	headers := slices.DeleteFunc(slices.Clone(m.Headers), func(h publisher.Header) bool {
		return strings.EqualFold(h.Name, publisher.HeaderContentType)
	})
	if to != publisher.ProtocolAMQP {
		headers = slices.Insert(headers, 0, publisher.Header{Name: publisher.HeaderContentType, Value: contentType})
	}
	m.Bare, m.Headers, m.Type = true, headers, contentType
	return nil
}

// event is a row as an event.
type event struct {
	attributes []publisher.Header
	others     []publisher.Header // the row's headers that are not attributes
}

// take divides the row's headers into attributes and others.
func (e *event) take(headers []publisher.Header) error {
	for _, h := range headers {
		if strings.EqualFold(h.Name, publisher.HeaderContentType) {
			continue // already an attribute
		}
		name, is := attributeName(h.Name)
		if !is {
			e.others = append(e.others, h)
			e.trace(h)
			continue
		}
		if name == "id" || name == "specversion" || name == "data" {
			return reserved(h.Name, CloudEvents)
		}
		if !legalName(name) {
			return publisher.PermanentError("illegal attribute", "the header %q cannot be a CloudEvents attribute: "+
				"their names have letters a-z and digits", h.Name)
		}
		e.set(name, h.Value)
	}
	return nil
}

// trace also turns a header that says to which trace the row belongs into an attribute, unless the row sets that
// attribute itself.
func (e *event) trace(h publisher.Header) {
	name := strings.ToLower(h.Name)
	given := func(a publisher.Header) bool { return a.Name == name }
	if (name == "traceparent" || name == "tracestate") && legalAttribute(h.Value) &&
		!slices.ContainsFunc(e.attributes, given) {
		e.set(name, h.Value)
	}
}

func (e *event) set(name, value string) {
	for i := range e.attributes {
		if e.attributes[i].Name == name {
			e.attributes[i].Value = value
			return
		}
	}
	e.attributes = append(e.attributes, publisher.Header{Name: name, Value: value})
}

// attributeName returns the attribute that a row's header stands for.
func attributeName(header string) (name string, is bool) {
	for _, prefix := range []string{"ce_", "ce-", "cloudEvents:", "cloudEvents_"} {
		if name, is = strings.CutPrefix(header, prefix); is {
			return name, true
		}
	}
	return "", false
}

func legalName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// legalAttribute reports whether a text can be an attribute's value: CloudEvents 1.0, type system.
func legalAttribute(value string) bool {
	return value != "" && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl)
}

// percentEncode encodes a header value as the NATS binding requires: space, double quote, percent, and everything that
// is not printable ASCII, byte by byte.
func percentEncode(value string) string {
	var encoded strings.Builder
	encoded.Grow(len(value))
	for i := range len(value) {
		if c := value[i]; c > ' ' && c <= '~' && c != '"' && c != '%' {
			encoded.WriteByte(c)
		} else {
			fmt.Fprintf(&encoded, "%%%02X", c)
		}
	}
	return encoded.String()
}
