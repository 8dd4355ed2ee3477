package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// harness is what the conformance suite needs to know about this broker.
type harness struct {
	path   string
	topics *atomic.Int64
}

func TestFilePassesTheSuite(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, harness{filepath.Join(t.TempDir(), "messages"), new(atomic.Int64)})
}

func (h harness) Open(t *testing.T, _ *publishertest.Network) publisher.Publisher {
	t.Helper()
	p, err := newFile(func() (string, error) { return "file:" + h.path, nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (h harness) Topic(*testing.T) string   { return fmt.Sprint("topic-", h.topics.Add(1)) }
func (h harness) Unknown(*testing.T) string { return "" } // the file takes every topic
func (h harness) Create(*testing.T, string) {}
func (h harness) Illegal() []string         { return []string{""} }
func (h harness) TooLarge() int             { return 0 }
func (h harness) Networkless()              {}

// Received waits for messages by reading the file repeatedly.
func (h harness) Received(t *testing.T, topic string, n int) []publisher.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		received := h.read(t, topic)
		if len(received) >= n {
			return received
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d messages in %s, not %d", len(received), topic, n)
		case <-again.C:
		}
	}
}

func (h harness) read(t *testing.T, topic string) (received []publisher.Message) {
	t.Helper()
	content, err := os.ReadFile(h.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var r record
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the line is still being written
		}
		if !bytes.Contains(line, []byte(strconv.Quote(topic))) {
			continue // of another test: to parse all lines each time takes minutes
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Topic == topic {
			received = append(received, publisher.Message{
				ID: r.ID, Topic: r.Topic, Type: r.ContentType, Key: r.Key, Payload: r.Payload,
				Headers: r.Headers,
			})
		}
	}
	return received
}

// The program accepts its scheme in addition to those of outbox-relay, and names the setting where it refuses another
// scheme.
func TestProgram(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "relay-to-file")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for url, want := range map[string]string{
		"file:/tmp/messages": "", "nats://localhost": "",
		"fiel:/tmp/messages": "OUTBOX_PUBLISH_URL",
	} {
		command := exec.CommandContext(t.Context(), binary, "config")
		command.Env = []string{"OUTBOX_DATABASE_URL=postgres://localhost/shop", "OUTBOX_PUBLISH_URL=" + url}
		out, err := command.CombinedOutput()
		if (err != nil) != (want != "") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", url, err, out)
		}
	}
}
