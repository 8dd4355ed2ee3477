// Package nats measures how fast the relay's publisher publishes to JetStream, beside the least that the
// client library can do with the same messages.
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
)

const (
	batch  = 1000 // messages in a call, and in a window of the reference
	rounds = 5    // by turns; the ratio is the median of the rounds' own
)

// Run publishes rows messages of 512 bytes, each with an id and a key of its own, by turns with the publisher
// and with PublishMsgAsync of the client library in windows of 1000; then all with one key by turns with
// as many keys as rows, to a stream that allows atomic batches; and through TLS by turns with a plain
// connection. It writes the rates, ratios, targets and verdicts to out. Streams are made and deleted.
func Run(ctx context.Context, out io.Writer, url string, rows int) error {
	rows = max(rows/batch, 1) * batch
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
	if err := b.compare(ctx, comparison{name: "as many keys as rows", subject: plain, reference: raw, of: "raw PublishMsgAsync", target: 0.95}); err != nil {
		return err
	}
	hot := &oneKey{plain}
	if err := b.compare(ctx, comparison{name: "one key, atomic batches", atomic: true, subject: hot, reference: plain, of: "as many keys as rows", target: 0.5}); err != nil {
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

// bench holds what the comparisons share.
type bench struct {
	out  io.Writer
	js   jetstream.JetStream
	rows int
}

// A sender publishes messages to one stream and waits until all are acknowledged.
type sender interface {
	send(ctx context.Context, messages []publisher.Message) error
}

// A comparison is of one way to publish with another.
type comparison struct {
	name               string
	atomic             bool // the streams allow atomic batches
	subject, reference sender
	of                 string
	target             float64
}

func (b *bench) compare(ctx context.Context, c comparison) error {
	var ours, theirs, ratios []float64
	for round := range rounds + 1 {
		one, err := b.measure(ctx, c.subject, c.atomic)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		other, err := b.measure(ctx, c.reference, c.atomic)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.name, c.of, err)
		}
		if round > 0 { // the first warms the server up
			ours, theirs, ratios = append(ours, one), append(theirs, other), append(ratios, one/other)
		}
	}
	ratio, verdict := median(ratios), "reached"
	if ratio < c.target {
		verdict = "missed"
	}
	_, err := fmt.Fprintf(b.out, "%-24s %7.0f messages/s, %s %7.0f, ratio %.2f (%.2f to %.2f), target %.2f: %s\n",
		c.name, median(ours), c.of, median(theirs), ratio, slices.Min(ratios), slices.Max(ratios), c.target, verdict)
	return err
}

// measure returns the rate with a new stream, in messages a second. The first call, after which the
// publisher knows the stream, is not counted.
func (b *bench) measure(ctx context.Context, s sender, atomic bool) (rate float64, err error) {
	name := "bench-publish-" + rand.Text()
	if _, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage, AllowAtomicPublish: atomic}); err != nil {
		return 0, fmt.Errorf("create stream: %w", err)
	}
	messages := newMessages(name, batch+b.rows)
	if err := s.send(ctx, messages[:batch]); err != nil {
		return 0, err
	}
	begun := time.Now()
	for part := range slices.Chunk(messages[batch:], batch) {
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

func newMessages(topic string, n int) []publisher.Message {
	payload := make([]byte, 512)
	messages := make([]publisher.Message, n)
	for i := range messages {
		id := fmt.Sprintf("018f4b1e-7c3a-7000-8000-%012d", i)
		messages[i] = publisher.Message{
			ID: id, DedupID: id, Topic: topic, Key: fmt.Appendf(nil, "customer-%d", i), Payload: payload,
			Headers: []publisher.Header{{Name: "source", Value: "orders-service"},
				{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
			Type: "application/json",
		}
	}
	return messages
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
