// Package stdout publishes messages as lines of JSON, for trying out the relay.
package stdout

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Publisher writes one line of JSON for each message.
type Publisher struct {
	mu     sync.Mutex // guards writes to w
	w      io.Writer
	closed atomic.Bool
}

// New returns a publisher that writes to w, with one Write for each call of Publish. It does not close w.
func New(w io.Writer) *Publisher { return &Publisher{w: w} }

// Publish returns when the lines are written. A write cannot be interrupted: it is waited for even when ctx has ended.
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, answers := lines(messages)
	var err error
	switch {
	case p.closed.Load():
		err = publisher.ErrClosed
	case ctx.Err() != nil || publisher.StopOf(ctx).Closed():
		err = publisher.ErrNotAttempted
	default:
		if _, failed := p.w.Write(text); failed != nil {
			err = publisher.AmbiguousError("write failed", "write to standard output: %w", failed)
		}
	}
	if err != nil { // also for messages that cannot be printed, since those before them may not have been written
		return slices.Repeat([]error{err}, len(messages))
	}
	return answers
}

// Ping reports whether the publisher is open.
func (p *Publisher) Ping(context.Context) error {
	if p.closed.Load() {
		return publisher.ErrClosed
	}
	return nil
}

// Close makes later calls fail. It does not wait for a write.
func (p *Publisher) Close() error {
	p.closed.Store(true)
	return nil
}

// lines returns the lines of all messages that can be printed, and the answers for the call once they are written.
func lines(messages []publisher.Message) (text []byte, answers []error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	answers = make([]error, len(messages))
	stopped := map[string]bool{} // keys of which a message cannot be printed
	for i := range messages {
		m, err := &messages[i], &answers[i]
		if m.Key != nil && stopped[string(m.Key)] {
			*err = publisher.ErrNotAttempted
		} else if *err = m.CheckHeaders(); *err == nil {
			l, payload := lineOf(m)
			if failed := encoder.Encode(l); failed != nil {
				*err = publisher.PermanentError("no JSON", "print the message: %w", failed)
			} else if payload != "" { // as PostgreSQL printed it, which encoding/json would change
				out.Truncate(out.Len() - len("}\n"))
				out.WriteString(`,"payload":` + payload + "}\n")
			}
		}
		if *err != nil && m.Key != nil {
			stopped[string(m.Key)] = true
		}
	}
	return out.Bytes(), answers
}

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
	if strings.HasPrefix(l.ContentType, "application/json") && json.Valid(m.Payload) {
		return l, oneLine.Replace(string(m.Payload))
	}
	l.Payload, l.PayloadBase64 = printable(m.Payload)
	return l, ""
}

// printable returns UTF-8 as text, and other bytes as they are.
func printable(b []byte) (text *string, other []byte) {
	if s := string(b); b != nil && utf8.ValidString(s) {
		return &s, nil
	}
	return nil, b
}
