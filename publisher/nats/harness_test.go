package nats_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// patience is how long a test waits for something that must happen before it fails.
const patience = 30 * time.Second

// TestSuite runs the contract's suite against the real server.
func TestSuite(t *testing.T) {
	publishertest.Run(t, harness{js: broker(t)})
}

// A harness gives the suite a NATS server.
type harness struct {
	js jetstream.JetStream
}

func broker(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := client.Connect(services.Endpoint(t, "TEST_NATS_URL"))
	if err != nil {
		t.Fatalf("connect to the NATS server of TEST_NATS_URL: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (h harness) Open(t *testing.T, network *publishertest.Network) publisher.Publisher {
	p := open(t, nats.Config{Dial: network.Dial})
	p.BePatient(patience)
	return p
}

// login returns the source of a user and a password.
func login(user, password string) func() (nats.Auth, error) {
	return func() (nats.Auth, error) { return nats.Auth{User: user, Password: password}, nil }
}

// open returns a publisher for the server of TEST_NATS_URL, unless the configuration names others.
func open(t testing.TB, config nats.Config) *nats.Publisher {
	t.Helper()
	if config.Servers == nil {
		config.Servers = []string{services.Endpoint(t, "TEST_NATS_URL")}
	}
	config.Name = t.Name()
	p, err := nats.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (h harness) Topic(t *testing.T) string {
	topic := h.Unknown(t)
	h.Create(t, topic)
	return topic
}

func (h harness) Unknown(*testing.T) string { return "test." + rand.Text() + ".created" }

func (h harness) Create(t *testing.T, topic string) {
	t.Helper()
	stream(t, h.js, jetstream.StreamConfig{Subjects: []string{topic}})
}

// stream creates a stream for this test.
func stream(t testing.TB, js jetstream.JetStream, config jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if config.Name == "" {
		config.Name = "TEST_" + rand.Text()
	}
	stream, err := js.CreateStream(ctx, config)
	// When the account's last stream is removed, the server removes the directory in which it may be creating the next
	// one.
	const storeFailed = 10049
	for refused := (*jetstream.APIError)(nil); errors.As(err, &refused) && refused.ErrorCode == storeFailed &&
		ctx.Err() == nil; {
		stream, err = js.CreateStream(ctx, config)
	}
	if err != nil {
		t.Fatalf("create stream: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := js.DeleteStream(ctx, config.Name); err != nil {
			t.Errorf("delete stream: %v", err)
		}
	})
	return stream
}

func (h harness) Illegal() []string {
	return []string{
		"", ".", "a..b", ".a", "a.", "a b", "a\tb", "a\r\nb", "a\x00b", "a.*", "a.>", "*", ">",
		"$JS.API.INFO", "$SYS.REQ", "_INBOX.abc.def", strings.Repeat("long.", 1000) + "er",
	}
}

func (h harness) TooLarge() int { return 2 << 20 } // max_payload is 1 MiB by default

func (h harness) Received(t *testing.T, topic string, n int) []publisher.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	name, err := h.js.StreamNameBySubject(ctx, topic)
	if err != nil {
		t.Fatalf("find the stream of %s: %v", topic, err)
	}
	stream, err := h.js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, stream, n)
}

// read waits until the stream holds n messages and returns all its messages.
func read(t *testing.T, stream jetstream.Stream, n int) []publisher.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	held := 0
	for {
		info, err := stream.Info(ctx)
		if err != nil {
			t.Fatalf("the stream holds %d messages, not %d: %v", held, n, err)
		}
		if held = int(info.State.Msgs); held >= n {
			break
		}
		<-poll.C
	}
	received := make([]publisher.Message, 0, held)
	if held == 0 {
		return received
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.Fetch(held, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		received = append(received, message(m))
	}
	if err := batch.Error(); err != nil || len(received) < held {
		t.Fatalf("read %d of %d messages: %v", len(received), held, err)
	}
	return received
}

func message(from jetstream.Msg) publisher.Message {
	m := publisher.Message{Topic: from.Subject(), Payload: from.Data()}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	for name, values := range from.Headers() {
		for _, value := range values {
			m.Headers = append(m.Headers, publisher.Header{Name: name, Value: value})
			switch name {
			case publisher.HeaderMessageID:
				m.ID = value
			case publisher.HeaderMessageKey:
				m.Key = []byte(value)
			case publisher.HeaderContentType:
				m.Type = value
			case "Nats-Msg-Id":
				m.DedupID = value
			}
		}
	}
	return m
}
