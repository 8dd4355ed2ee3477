package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type natsBroker struct {
	address  string
	js       jetstream.JetStream
	replicas int // of each stream
}

func newNATS(t testing.TB, url string) *natsBroker {
	t.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatalf("connect to NATS: %v", err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return &natsBroker{address: url, js: js, replicas: 1}
}

func (*natsBroker) name() string  { return "nats" }
func (b *natsBroker) url() string { return b.address }

func (b *natsBroker) topic(t testing.TB) string {
	t.Helper()
	name := uniqueTopic()
	b.create(t, name)
	return name
}

// streamOf names a topic's stream: as its subject, but for the dots, which a stream's name cannot have.
func streamOf(topic string) string { return strings.ReplaceAll(topic, ".", "_") }

// create makes a stream for the subject. It drops next to no duplicates, so that they can be counted.
func (b *natsBroker) create(t testing.TB, topic string) {
	t.Helper()
	b.stream(t, topic, topic, 100*time.Millisecond)
}

// stream makes the stream of a topic for a subject, with a duplicate window.
func (b *natsBroker) stream(t testing.TB, topic, subject string, window time.Duration) jetstream.Stream {
	t.Helper()
	config := jetstream.StreamConfig{Name: streamOf(topic), Subjects: []string{subject}, Replicas: b.replicas,
		Storage: jetstream.FileStorage, Duplicates: window}
	made, err := b.js.CreateStream(t.Context(), config)
	// With the account's last stream the server removes the directory in which it may be making the next one.
	const storeFailed = 10049
	for refused := (*jetstream.APIError)(nil); errors.As(err, &refused) && refused.ErrorCode == storeFailed && t.Context().Err() == nil; {
		made, err = b.js.CreateStream(t.Context(), config)
	}
	if err != nil {
		t.Fatalf("create stream %s: %v", topic, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = b.js.DeleteStream(ctx, streamOf(topic)) // its server may be gone
	})
	return made
}

func (b *natsBroker) try(t testing.TB, topic string) error {
	ctx, cancel := context.WithTimeout(t.Context(), tryTime)
	defer cancel()
	conn, err := nats.Connect(b.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	_, err = js.Publish(ctx, topic, nil)
	return err
}

func (b *natsBroker) received(t testing.TB, topic string) []delivery {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), streamOf(topic))
	if err != nil {
		t.Fatalf("stream %s: %v", topic, err)
	}
	left := stream.CachedInfo().State.Msgs
	if left == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatalf("consume %s: %v", topic, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatalf("consume %s: %v", topic, err)
	}
	defer messages.Stop()
	var all []delivery
	for ; left > 0; left-- {
		message, err := messages.Next(jetstream.NextMaxWait(patience))
		if err != nil {
			t.Fatalf("next of %s: %v", topic, err)
		}
		d := delivery{topic: message.Subject(), body: string(message.Data()), headers: map[string]string{}, keyless: true}
		for name, values := range message.Headers() {
			switch name {
			case "message-id":
				d.id = values[0]
			case "message-key":
				d.key, d.keyless = values[0], false
			default:
				d.headers[name] = values[0]
			}
		}
		all = append(all, d)
	}
	return all
}
