// Package nats measures how fast the relay's publisher publishes to JetStream, compared with the least work with which
// the client library can publish the same messages.
package nats

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/test/bench/publish"
)

const rounds = 5

// Run publishes messages of 512 bytes, each with an id and a key of its own. The argument rows is the number of
// messages. The publisher takes turns with PublishMsgAsync of the client library in windows of 1000, and then through
// TLS in turns with a plain connection. Run writes the rates, ratios, targets and verdicts to out. Streams are made and
// deleted.
func Run(ctx context.Context, out io.Writer, url string, rows int) error {
	rows = max(rows/publish.Batch, 1) * publish.Batch
	conn, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	b := &bench{out: out, js: js, rows: rows}
	raw, err := newRaw(url)
	if err != nil {
		return err
	}
	defer raw.close()
	plain, err := newOurs(ctx, url)
	if err != nil {
		return err
	}
	defer plain.close()
	if err := b.compare(ctx, comparison{
		name: "as many keys as rows", subject: plain, reference: raw, of: "raw PublishMsgAsync",
		target: 0.95,
	}); err != nil {
		return err
	}
	secure, through, err := throughProxies(ctx, url)
	if err != nil {
		return err
	}
	defer secure.close()
	defer through.close()
	return b.compare(ctx, comparison{name: "TLS", subject: secure, reference: through, of: "without TLS", target: 0.75})
}

// bench holds the state that the comparisons share.
type bench struct {
	out  io.Writer
	js   jetstream.JetStream
	rows int
}

// A sender publishes messages to one stream and waits until all are acknowledged.
type sender interface {
	send(ctx context.Context, messages []publisher.Message) error
}

// A comparison compares one way to publish with another.
type comparison struct {
	name               string
	subject, reference sender
	of                 string
	target             float64
}

func (b *bench) compare(ctx context.Context, c comparison) error {
	return publish.Contest{
		Name: c.name, Of: c.of, Target: c.target, Rounds: rounds,
		Round: publish.Rates(c.subject, c.reference, b.measure),
	}.Run(ctx, b.out)
}

// measure returns the rate with a new stream, in messages a second. The first call, after which the
// publisher knows the stream, is not counted.
func (b *bench) measure(ctx context.Context, s sender) (rate float64, err error) {
	name := "bench-publish-" + rand.Text()
	if _, err := b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage,
	}); err != nil {
		return 0, fmt.Errorf("create stream: %w", err)
	}
	messages := publish.WithTopic(publish.Messages(publish.Batch+b.rows), name)
	if err := s.send(ctx, messages[:publish.Batch]); err != nil {
		return 0, err
	}
	begun := time.Now()
	for part := range slices.Chunk(messages[publish.Batch:], publish.Batch) {
		if err := s.send(ctx, part); err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	if err := b.js.DeleteStream(ctx, name); err != nil {
		return 0, fmt.Errorf("delete stream: %w", err)
	}
	return float64(b.rows) / took.Seconds(), nil
}
