package kafka

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log/slog"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// openCompressed returns a publisher for the real broker.
func (h *harness) openCompressed(t testing.TB, name string) *Publisher {
	t.Helper()
	p := New(Config{
		Brokers: h.brokers, ClientID: "test", Compression: codecNamed(t, name), Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// codecNamed reads a codec as the settings do.
func codecNamed(t testing.TB, name string) (codec compress.Compression) {
	t.Helper()
	if err := codec.UnmarshalText([]byte(name)); err != nil {
		t.Fatal(err)
	}
	return codec
}

// text returns a payload of n bytes that compresses well.
func text(n int) []byte { return bytes.Repeat([]byte(`{"state":"paid","amount":17}`), n/28) }

// The output of each codec is read back from the real broker, byte by byte.
func TestCompressionRoundTrip(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, name := range codecs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := h.topic(t, 2)
			p := h.openCompressed(t, name)
			noise := make([]byte, 20_000)
			rand.Read(noise)
			sent := map[string]publisher.Message{}
			var messages []publisher.Message
			for i, payload := range [][]byte{nil, {}, text(100), text(90_000), noise, text(3_000_000)} {
				if name == "none" && len(payload) > 1<<20 {
					continue // when compressed, it is below the topic's limit
				}
				m := publisher.Message{
					ID: fmt.Sprint(i), Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Payload: payload,
					Headers: []publisher.Header{{Name: "tenant", Value: "north"}},
				}
				messages, sent[m.ID] = append(messages, m), m
			}
			for range 2 { // the second time with the encoders of the first
				expectAccepted(t, p, messages)
			}
			for _, got := range h.received(t, topic, 2*len(messages)) {
				m := sent[got.ID]
				if !bytes.Equal(got.Payload, m.Payload) || (got.Payload == nil) != (m.Payload == nil) ||
					!bytes.Equal(got.Key, m.Key) {
					t.Errorf("message %q came back with another key or payload", got.ID)
				}
				if value, _ := got.Header("tenant"); value != "north" {
					t.Errorf("message %q came back with the headers %v", got.ID, got.Headers)
				}
			}
		})
	}
}

// A batch that compression does not make smaller is sent uncompressed. Other batches name the codec in their
// attributes.
func TestCompressionPaysOrIsLeft(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 50_000)
	rand.Read(noise)
	for code, name := range codecs {
		codec := codecNamed(t, name)
		if int(codec) != code {
			t.Fatalf("%s is codec %d", name, codec)
		}
		p := New(Config{Compression: codec})
		for payload, want := range map[string]byte{string(noise): 0, string(text(50_000)): byte(code)} {
			plain, _ := appendBatch(nil, []publisher.Message{{ID: "1", Payload: []byte(payload)}}, []int32{0}, maxBatchBytes,
				producer{id: 7}, 0,
				clockAt(time.Now()))
			size := len(plain)
			packed := p.compress(plain)
			seal(packed)
			if packed[attributesAt+1] != want || want == 0 && len(packed) != size || want != 0 && len(packed) > size/10 {
				t.Errorf("%s: attributes %d, %d of %d bytes", name, packed[attributesAt+1], len(packed), size)
			}
			record, err := decode(t, packed).Records.ReadRecord()
			if err != nil || string(bytesOf(t, record.Value)) != payload {
				t.Errorf("%s: decoded something else: %v", name, err)
			}
		}
	}
}

// A topic's limit applies to what is sent. Batches that are too large after compression are divided, by the
// uncompressed size with which they are filled. Only a record that is too large alone fails.
func TestCompressedBatchesMeetTheLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, name := range codecs[1:] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := h.topic(t, 1, kafkago.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "20000"})
			p := h.openCompressed(t, name)
			messages := benchMessages(topic)[:300]
			for i := range messages { // half of each payload is noise
				messages[i].Payload = append(text(256), messages[i].Payload[:256]...)
				rand.Read(messages[i].Payload[len(text(256)):])
			}
			messages[100].Payload, messages[200].Payload = make([]byte, 30_000), make([]byte, 30_000)
			rand.Read(messages[200].Payload)
			for i, err := range answersOf(t, p, messages) {
				if want := i == 200; publisher.ClassOf(err) == publisher.Permanent != want || !want && err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			if n := len(h.received(t, topic, 299)); n != 299 {
				t.Errorf("the topic holds %d messages of 299", n)
			}
		})
	}
}
