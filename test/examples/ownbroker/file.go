package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// file is the broker: a file to which each message is appended as a line of JSON.
type file struct {
	url    func() (string, error)
	mu     sync.Mutex // held during a Publish
	closed bool
}

// A record is a message in the file.
type record struct {
	ID, Topic, ContentType string
	Key, Payload           []byte // null where the row has none
	Headers                []publisher.Header
}

// newFile is the function that cli.Scheme requires. It does not open the file yet.
func newFile(url func() (string, error), _ *slog.Logger) (publisher.Publisher, error) {
	return &file{url: url}, nil
}

// Publish returns one answer for each message, in their order: nil once the message is stored on the disk.
func (f *file) Publish(ctx context.Context, messages []publisher.Message) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	answers := make([]error, len(messages))
	var text bytes.Buffer
	// The map holds keys with a message that cannot be written. Later messages of these keys must not overtake it.
	stopped := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if m.Key != nil && stopped[string(m.Key)] {
			answers[i] = publisher.ErrNotAttempted
		} else if answers[i] = write(&text, m); answers[i] != nil && m.Key != nil {
			stopped[string(m.Key)] = true
		}
	}
	if failure := f.append(ctx, text.Bytes()); failure != nil {
		for i := range answers {
			answers[i] = failure // the class decides what happens to the rows, see publisher.Class
		}
	}
	return answers
}

// write adds a message to the text. A message that can never be written fails permanently.
func write(text *bytes.Buffer, m *publisher.Message) error {
	if err := m.CheckHeaders(); err != nil {
		return err
	}
	if m.Topic == "" {
		return publisher.PermanentError("no topic", "the message has no topic")
	}
	line, err := json.Marshal(record{m.ID, m.Topic, m.ContentType(), m.RecordKey(), m.Payload, m.Headers})
	if err != nil {
		return publisher.PermanentError("no JSON", "the message cannot be written as JSON: %w", err)
	}
	text.Write(append(line, '\n'))
	return nil
}

// append writes the text durably.
func (f *file) append(ctx context.Context, text []byte) error {
	switch {
	case f.closed:
		return publisher.ErrClosed
	case ctx.Err() != nil || publisher.StopOf(ctx).Closed():
		return publisher.ErrNotAttempted
	}
	out, err := f.open()
	if err != nil {
		return publisher.UnavailableError(publisher.ScopeDestination, "not opened", "%w", err)
	}
	defer out.Close()
	if _, err := out.Write(text); err != nil {
		return publisher.AmbiguousError("not written", "append to the file: %w", err)
	}
	if err := out.Sync(); err != nil {
		return publisher.AmbiguousError("not synced", "sync the file: %w", err)
	}
	return nil
}

// open opens the file that the URL names at present.
func (f *file) open() (*os.File, error) {
	url, err := f.url()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(strings.TrimPrefix(url, "file:"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("correct OUTBOX_PUBLISH_URL, or make the directory: %w", err)
	}
	return out, nil
}

// Ping reports whether the file can be written at present.
func (f *file) Ping(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return publisher.ErrClosed
	}
	out, err := f.open()
	if err != nil {
		return err
	}
	return out.Close()
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}
