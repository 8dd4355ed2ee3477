package stdout_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/stdout"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message publisher.Message
		want    string
	}{
		"everything": {
			publisher.Message{
				ID: "1", Topic: "orders", Key: []byte("k"), Type: "application/json",
				Payload:  []byte(`{"n":  1.50, "t": "<&>"}`),
				Headers:  []publisher.Header{{Name: "z", Value: "ü"}, {Name: "a", Value: "\""}},
				Inserted: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)),
			},
			`{"id":"1","topic":"orders","key":"k","headers":{"a":"\"","z":"ü"},"contentType":"application/json",` +
				`"inserted":"2026-01-02T02:04:05.000006Z","payload":{"n":  1.50, "t": "<&>"}}`,
		},
		"nothing": {publisher.Message{ID: "1", Topic: "t"}, `{"id":"1","topic":"t"}`},
		"an empty key": {
			publisher.Message{Key: []byte{}, Payload: []byte{}},
			`{"id":"","topic":"","key":"","payload":""}`,
		},
		"a binary key": {publisher.Message{Key: []byte{0xff}}, `{"id":"","topic":"","keyBase64":"/w=="}`},
		"text": {
			publisher.Message{Type: "text/plain", Payload: []byte("1\n<2>")},
			`{"id":"","topic":"","contentType":"text/plain","payload":"1\n<2>"}`,
		},
		"bytes": {publisher.Message{Payload: []byte{0xff, 0}}, `{"id":"","topic":"","payloadBase64":"/wA="}`},
		"JSON over lines": {
			publisher.Message{Type: "application/json; charset=utf-8", Payload: []byte("[1,\r\n 2]")},
			`{"id":"","topic":"","contentType":"application/json; charset=utf-8","payload":[1,   2]}`,
		},
		"JSON that is none": {
			publisher.Message{Type: "application/json", Payload: []byte("{")},
			`{"id":"","topic":"","contentType":"application/json","payload":"{"}`,
		},
		"the row's type": {
			publisher.Message{
				Type: "application/json", Payload: []byte("1"),
				Headers: []publisher.Header{{Name: "Content-Type", Value: "text/csv"}},
			},
			`{"id":"","topic":"","headers":{"Content-Type":"text/csv"},"contentType":"text/csv","payload":"1"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out sink
			p := stdout.New(&out)
			if err := p.Publish(t.Context(), []publisher.Message{test.message})[0]; err != nil {
				t.Fatal(err)
			}
			if got := out.text.String(); got != test.want+"\n" {
				t.Errorf("got  %swant %s", got, test.want)
			}
		})
	}
}

func TestOneWriteForACall(t *testing.T) {
	t.Parallel()
	var out sink
	p := stdout.New(&out)
	p.Publish(t.Context(), make([]publisher.Message, 100))
	if out.writes != 1 {
		t.Errorf("%d writes for one call", out.writes)
	}
}

// brittle writes the given number of bytes and then fails until it is repaired.
type brittle struct {
	sink
	left int
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.left >= len(p) {
		return b.sink.Write(p)
	}
	n, _ := b.sink.Write(p[:b.left])
	b.left = 0
	return n, io.ErrClosedPipe
}

func TestFailedWrite(t *testing.T) {
	t.Parallel()
	call := []publisher.Message{
		{ID: "1", Key: []byte("a")},
		{ID: "2", Key: []byte("b")},
		{ID: "3", Key: []byte("b"), Headers: []publisher.Header{{Name: "CC"}}},
		{ID: "4", Key: []byte("c"), Headers: []publisher.Header{{Name: "CC"}}},
	}
	out := &brittle{}
	p := stdout.New(out)
	for _, bytes := range []int{0, 40} {
		out.left = bytes
		for i, err := range p.Publish(t.Context(), call) {
			if publisher.ClassOf(err) != publisher.Ambiguous || !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("after %d bytes, answer %d is %v", bytes, i, err)
			}
		}
	}
	out.left = 1000
	if err := p.Publish(t.Context(), call[1:2])[0]; err != nil {
		t.Error(err)
	}
}
