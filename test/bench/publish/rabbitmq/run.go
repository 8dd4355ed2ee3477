// Package rabbitmq measures how fast the relay's publisher publishes to RabbitMQ, compared with the least work with
// which the client library can publish the same messages.
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
	"github.com/outbox-relay/outbox-relay/test/bench/publish"
)

const rounds = 5

// Run publishes messages of 512 bytes, each with a key of its own. The argument rows is the number of messages. The
// publisher takes turns with deferred confirms of the client library in windows of 1000, and through TLS with a plain
// connection. Run writes the rates, ratios, targets and verdicts to out. Queues are declared and deleted.
func Run(ctx context.Context, out io.Writer, url string, rows int) error {
	amqp091.Logger = log.New(io.Discard, "", 0) // hides errors of late writes while a connection closes
	rows = max(rows/publish.Batch, 1) * publish.Batch
	messages := publish.Messages(rows)
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
		if err := b.compare(ctx, comparison{
			name: kind + " queue", queue: kind, subject: ours, reference: raw, of: "raw deferred confirms",
			target: 0.95,
		}); err != nil {
			return err
		}
	}
	secure, plain, err := throughProxies(ctx, url)
	if err != nil {
		return err
	}
	defer secure.close()
	defer plain.close()
	return b.compare(ctx, comparison{
		name: "TLS, quorum queue", queue: amqp091.QueueTypeQuorum, subject: secure, reference: plain,
		of: "without TLS", target: 0.75,
	})
}

// bench holds the state that the comparisons share.
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

// A comparison compares one way to publish with another.
type comparison struct {
	name, queue        string
	subject, reference sender
	of                 string
	target             float64
}

func (b *bench) compare(ctx context.Context, c comparison) error {
	return publish.Contest{
		Name: c.name, Of: c.of, Target: c.target, Rounds: rounds,
		Round: publish.Rates(c.subject, c.reference, func(ctx context.Context, s sender) (float64, error) {
			return b.measure(ctx, s, c.queue)
		}),
	}.Run(ctx, b.out)
}

// measure returns the rate with a new queue, in messages a second.
func (b *bench) measure(ctx context.Context, s sender, kind string) (rate float64, err error) {
	ch, err := b.conn.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	queue := "bench-publish-" + rand.Text()
	if _, err := ch.QueueDeclare(queue, true, false, false, false,
		amqp091.Table{amqp091.QueueTypeArg: kind}); err != nil {
		return 0, fmt.Errorf("declare queue: %w", err)
	}
	publish.WithTopic(b.messages, queue)
	begun := time.Now()
	for part := range slices.Chunk(b.messages, publish.Batch) {
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
