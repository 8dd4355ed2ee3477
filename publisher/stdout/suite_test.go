package stdout_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/publisher/stdout"
)

// A sink is a writer that keeps what was written.
type sink struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.text.Write(p)
}

// A harness is the writer of all publishers and topics, as a terminal is. It keeps each write as a whole.
type harness struct {
	mu      sync.Mutex
	writes  [][]byte
	changed chan struct{} // closed and replaced by Write
	topics  atomic.Int64
}

func (h *harness) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = append(h.writes, bytes.Clone(p))
	close(h.changed)
	h.changed = make(chan struct{})
	return len(p), nil
}

func TestPublisherPassesTheSuite(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, &harness{changed: make(chan struct{})})
}

func (h *harness) Open(*testing.T, *publishertest.Network) publisher.Publisher {
	return stdout.New(h)
}

func (h *harness) Topic(t *testing.T) string {
	return fmt.Sprintf("%s-%d.", t.Name(), h.topics.Add(1))
}

func (h *harness) Unknown(*testing.T) string { return "" }
func (h *harness) Create(*testing.T, string) {}
func (h *harness) Illegal() []string         { return nil }
func (h *harness) TooLarge() int             { return 0 }
func (h *harness) Networkless()              {}

func (h *harness) Received(t *testing.T, topic string, n int) []publisher.Message {
	t.Helper()
	late := time.After(30 * time.Second)
	var received []publisher.Message
	for read := 0; ; {
		h.mu.Lock()
		writes, changed := h.writes[read:], h.changed
		h.mu.Unlock()
		read += len(writes)
		for _, write := range writes {
			for text := range bytes.Lines(write) {
				if bytes.Contains(text, []byte(topic)) {
					received = append(received, parse(t, text))
				}
			}
		}
		if len(received) >= n {
			return received
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d lines for %s, not %d", len(received), topic, n)
		}
	}
}

func parse(t *testing.T, text []byte) publisher.Message {
	t.Helper()
	var l struct {
		ID, Topic, ContentType string
		Key                    *string
		KeyBase64              []byte
		Headers                map[string]string
		Inserted               time.Time
		Payload                json.RawMessage
		PayloadBase64          []byte
	}
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatalf("a line is not JSON: %v: %.200q", err, text)
	}
	m := publisher.Message{
		ID: l.ID, Topic: l.Topic, Key: l.KeyBase64, Type: l.ContentType, Payload: l.PayloadBase64, Inserted: l.Inserted,
	}
	if l.Key != nil {
		m.Key = []byte(*l.Key)
	}
	var value string
	switch {
	case len(l.Payload) > 0 && json.Unmarshal(l.Payload, &value) == nil:
		m.Payload = []byte(value)
	case len(l.Payload) > 0:
		m.Payload = l.Payload
	}
	for name, value := range l.Headers {
		m.Headers = append(m.Headers, publisher.Header{Name: name, Value: value})
	}
	return m
}
