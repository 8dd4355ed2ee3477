// Package rabbitmq measures how fast the relay's publisher publishes to RabbitMQ, beside the least that
// the client library can do with the same messages.
package rabbitmq

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

const (
	batch  = 1000 // messages in a call, and in a window of the reference
	rounds = 5    // by turns; the ratio is the median of the rounds' own
)

// Run publishes rows messages of 512 bytes, each with a key of its own, by turns with the publisher and
// with deferred confirms of the client library in windows of 1000, and through TLS by turns with a plain
// connection. It writes the rates, ratios, targets and verdicts to out. Queues are declared and deleted.
func Run(ctx context.Context, out io.Writer, url string, rows int) error {
	amqp091.Logger = log.New(io.Discard, "", 0) // writes of a goodbye that come too late
	rows = max(rows/batch, 1) * batch
	messages := newMessages(rows)
	conn, err := amqp091.Dial(url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	b := &bench{out: out, conn: conn, messages: messages}

	ours, err := newOurs(ctx, amqp.Config{URL: func() (string, error) { return url, nil }})
	if err != nil {
		return err
	}
	defer ours.close()
	raw, err := newRaw(url)
	if err != nil {
		return err
	}
	defer raw.close()
	for _, kind := range []string{amqp091.QueueTypeQuorum, amqp091.QueueTypeClassic} {
		if err := b.compare(ctx, comparison{name: kind + " queue", queue: kind, subject: ours, reference: raw, of: "raw deferred confirms", target: 0.95}); err != nil {
			return err
		}
	}
	secure, plain, err := throughProxies(ctx, url)
	if err != nil {
		return err
	}
	defer secure.close()
	defer plain.close()
	return b.compare(ctx, comparison{name: "TLS, quorum queue", queue: amqp091.QueueTypeQuorum, subject: secure, reference: plain, of: "without TLS", target: 0.75})
}

// bench holds what the comparisons share.
type bench struct {
	out      io.Writer
	conn     *amqp091.Connection
	messages []publisher.Message
}

// A sender publishes messages of one queue and waits until all are confirmed.
type sender interface {
	send(ctx context.Context, messages []publisher.Message) error
	close()
}

// A comparison is of one way to publish with another.
type comparison struct {
	name, queue        string
	subject, reference sender
	of                 string
	target             float64
}

func (b *bench) compare(ctx context.Context, c comparison) error {
	var ours, theirs, ratios []float64
	for round := range rounds + 1 {
		one, err := b.measure(ctx, c.subject, c.queue)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		other, err := b.measure(ctx, c.reference, c.queue)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.name, c.of, err)
		}
		if round > 0 { // the first warms the broker up
			ours, theirs, ratios = append(ours, one), append(theirs, other), append(ratios, one/other)
		}
	}
	ratio, verdict := median(ratios), "reached"
	if ratio < c.target {
		verdict = "missed"
	}
	_, err := fmt.Fprintf(b.out, "%-18s %7.0f messages/s, %s %7.0f, ratio %.2f (%.2f to %.2f), target %.2f: %s\n",
		c.name, median(ours), c.of, median(theirs), ratio, slices.Min(ratios), slices.Max(ratios), c.target, verdict)
	return err
}

// measure returns the rate with a new queue, in messages a second.
func (b *bench) measure(ctx context.Context, s sender, kind string) (rate float64, err error) {
	ch, err := b.conn.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	queue := "bench-publish-" + rand.Text()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: kind}); err != nil {
		return 0, fmt.Errorf("declare queue: %w", err)
	}
	for i := range b.messages {
		b.messages[i].Topic = queue
	}
	begun := time.Now()
	for part := range slices.Chunk(b.messages, batch) {
		if err := s.send(ctx, part); err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		return 0, fmt.Errorf("delete queue: %w", err)
	}
	return float64(len(b.messages)) / took.Seconds(), nil
}

func newMessages(n int) []publisher.Message {
	payload := make([]byte, 512)
	messages := make([]publisher.Message, n)
	for i := range messages {
		messages[i] = publisher.Message{
			ID: fmt.Sprintf("018f4b1e-7c3a-7000-8000-%012d", i), Key: fmt.Appendf(nil, "customer-%d", i), Payload: payload,
			Headers: []publisher.Header{{Name: "source", Value: "orders-service"},
				{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
			Type: "application/json", Inserted: time.Unix(1_700_000_000, 0),
		}
	}
	return messages
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
