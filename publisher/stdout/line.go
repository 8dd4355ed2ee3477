package stdout

import (
	"bytes"
	"encoding/json"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A line is a message in the form in which it is printed, except for a payload that is text. Fields that a message does
// not have are left out.
type line struct {
	ID            string     `json:"id"`
	Topic         string     `json:"topic"`
	Key           *string    `json:"key,omitempty"`
	KeyBase64     []byte     `json:"keyBase64,omitempty"` // key that is not UTF-8
	Headers       headers    `json:"headers,omitempty"`
	ContentType   string     `json:"contentType,omitempty"`
	Inserted      *time.Time `json:"inserted,omitempty"`
	PayloadBase64 []byte     `json:"payloadBase64,omitempty"` // payload that is not UTF-8
}

// lines returns the lines of all messages that can be printed, and the answers for the call once they are written.
func lines(messages []publisher.Message) (text []byte, answers []error) {
	var out bytes.Buffer
	answers = make([]error, len(messages))
	stopped := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if m.Key != nil && stopped[string(m.Key)] {
			answers[i] = publisher.ErrNotAttempted
		} else if answers[i] = appendLine(&out, m); answers[i] != nil && m.Key != nil {
			stopped[string(m.Key)] = true
		}
	}
	return out.Bytes(), answers
}

func appendLine(out *bytes.Buffer, m *publisher.Message) error {
	if err := m.CheckHeaders(); err != nil {
		return err
	}
	l := line{ID: m.ID, Topic: m.Topic, Headers: m.Headers, ContentType: m.ContentType()}
	if key := string(m.RecordKey()); m.RecordKey() != nil && utf8.ValidString(key) {
		l.Key = &key
	} else {
		l.KeyBase64 = m.RecordKey()
	}
	if !m.Inserted.IsZero() {
		inserted := m.Inserted.UTC()
		l.Inserted = &inserted
	}
	if !utf8.Valid(m.Payload) {
		l.PayloadBase64 = m.Payload
	}
	text, err := encode(l)
	if err != nil {
		return publisher.PermanentError("no JSON", "print the message: %w", err)
	}
	out.Write(text)
	if m.Payload != nil && l.PayloadBase64 == nil {
		payload, err := value(m.Payload, l.ContentType)
		if err != nil {
			return publisher.PermanentError("no JSON", "print the payload: %w", err)
		}
		out.Truncate(out.Len() - len("}"))
		out.WriteString(`,"payload":`)
		out.Write(payload)
		out.WriteByte('}')
	}
	return out.WriteByte('\n')
}

// oneLine replaces line breaks, which in JSON are only white space between the values.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// value returns JSON as PostgreSQL printed it, which encoding/json would change, and other text as a string.
func value(payload []byte, contentType string) ([]byte, error) {
	if !isJSON(contentType) || !json.Valid(payload) {
		return encode(string(payload))
	}
	if bytes.ContainsAny(payload, "\r\n") {
		payload = []byte(oneLine.Replace(string(payload)))
	}
	return payload, nil
}

// isJSON reports whether a content type is application/json, whatever its parameters.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// headers are printed as an object, in the order of the row.
type headers []publisher.Header

// MarshalJSON implements json.Marshaler.
func (h headers) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, header := range h {
		name, err := encode(header.Name)
		if err != nil {
			return nil, err
		}
		value, err := encode(header.Value)
		if err != nil {
			return nil, err
		}
		out.WriteString(strings.Repeat(",", min(i, 1)))
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
	return append(append([]byte{'{'}, out.Bytes()...), '}'), nil
}

// encode works as json.Marshal does, but leaves <, > and & readable.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
