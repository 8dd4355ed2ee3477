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

// A line is a message in the form in which it is printed, except for a payload that is JSON. Fields that a message does
// not have are left out.
type line struct {
	ID            string            `json:"id"`
	Topic         string            `json:"topic"`
	Key           *string           `json:"key,omitempty"`
	KeyBase64     []byte            `json:"keyBase64,omitempty"` // key that is not UTF-8
	Headers       map[string]string `json:"headers,omitempty"`
	ContentType   string            `json:"contentType,omitempty"`
	Inserted      time.Time         `json:"inserted,omitzero"`
	Payload       *string           `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payloadBase64,omitempty"` // payload that is not UTF-8
}

// lines returns the lines of all messages that can be printed, and the answers for the call once they are written.
func lines(messages []publisher.Message) (text []byte, answers []error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	answers = make([]error, len(messages))
	stopped := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		err := m.CheckHeaders()
		if m.Key != nil && stopped[string(m.Key)] {
			err = publisher.ErrNotAttempted
		} else if err == nil {
			l, payload := lineOf(m)
			if err = encoder.Encode(l); err != nil {
				err = publisher.PermanentError("no JSON", "print the message: %w", err)
			} else if payload != "" { // as PostgreSQL printed it, which encoding/json would change
				out.Truncate(out.Len() - len("}\n"))
				out.WriteString(`,"payload":` + payload + "}\n")
			}
		}
		if answers[i] = err; err != nil && m.Key != nil {
			stopped[string(m.Key)] = true
		}
	}
	return out.Bytes(), answers
}

// oneLine replaces line breaks, which in JSON are only white space between the values.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// lineOf returns the line of a message, and its payload if that is JSON.
func lineOf(m *publisher.Message) (l line, payload string) {
	l = line{
		ID: m.ID, Topic: m.Topic, Headers: map[string]string{}, ContentType: m.ContentType(),
		Inserted: m.Inserted.UTC(),
	}
	for _, h := range m.Headers {
		l.Headers[h.Name] = h.Value
	}
	l.Key, l.KeyBase64 = printable(m.RecordKey())
	l.Payload, l.PayloadBase64 = printable(m.Payload)
	media, _, _ := mime.ParseMediaType(l.ContentType)
	if l.Payload != nil && media == "application/json" && json.Valid(m.Payload) {
		payload, l.Payload = oneLine.Replace(*l.Payload), nil
	}
	return l, payload
}

// printable returns UTF-8 as text, and other bytes as they are.
func printable(b []byte) (text *string, other []byte) {
	if s := string(b); b != nil && utf8.ValidString(s) {
		return &s, nil
	}
	return nil, b
}
