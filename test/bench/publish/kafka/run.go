// Package kafka measures how fast the relay's publisher publishes to Kafka, compared with franz-go's idempotent
// producer, which publishes the same messages in the same batches.
package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/test/bench/publish"
)

const (
	turn   = 5 // calls before the other side's turn, so that other load on the machine affects both sides
	rounds = 7 // number of rounds, each with new topics
)

// Run publishes messages of 512 bytes in calls of 1000, one call at a time. The argument rows is the number of
// messages. The publisher and franz-go's idempotent ProduceSync take turns, each message with a key of its own, to 6
// and to 48 partitions. Then the publisher publishes in turns with one single key and with as many keys as messages,
// and in turns through TLS and without it. Run writes the rates, ratios, targets and verdicts to out. Topics are
// created and deleted.
func Run(ctx context.Context, out io.Writer, url string, rows int) error {
	rows = max(rows/publish.Batch, 1) * publish.Batch
	address := strings.TrimPrefix(url, "kafka://")
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	b := &bench{out: out, client: &kafka.Client{
		Addr: kafka.TCP(strings.Split(address, ",")...), Transport: transport,
		Timeout: 30 * time.Second,
	}}
	spread, single := publish.Messages(rows), publish.Messages(rows)
	for i := range single {
		single[i].Key = []byte("the only customer")
	}
	ours := newOurs(address)
	defer ours.close()
	franz, err := newFranz(address, spread)
	if err != nil {
		return err
	}
	defer franz.close()
	for _, partitions := range []int{6, 48} {
		if err := b.compare(ctx, comparison{
			name: fmt.Sprint(partitions, " partitions"), partitions: partitions, target: 0.9,
			subject: ours, messages: spread, reference: franz, others: spread, of: "franz-go",
		}); err != nil {
			return err
		}
	}
	another := newOurs(address)
	defer another.close()
	if err := b.compare(ctx, comparison{
		name: "one key", partitions: 6, target: 0.5,
		subject: ours, messages: single, reference: another, others: spread, of: "as many keys as rows",
	}); err != nil {
		return err
	}
	secure, plain, err := throughProxies(ctx, address)
	if err != nil {
		return err
	}
	defer secure.close()
	defer plain.close()
	return b.compare(ctx, comparison{
		name: "TLS", partitions: 6, target: 0.75,
		subject: secure, messages: spread, reference: plain, others: slices.Clone(spread), of: "without TLS",
	})
}

// bench holds the state that the comparisons share.
type bench struct {
	out    io.Writer
	client *kafka.Client
}

// A sender publishes messages and waits until all are in the log.
type sender interface {
	// ready prepares the messages for a topic, before the time is measured.
	ready(messages []publisher.Message, topic string)
	// send publishes the messages from one index to another.
	send(ctx context.Context, from, to int) error
	close()
}

// A comparison compares one way to publish with another.
type comparison struct {
	name       string
	partitions int
	subject    sender
	messages   []publisher.Message
	reference  sender
	others     []publisher.Message // messages of the reference
	of         string
	target     float64
}

func (b *bench) compare(ctx context.Context, c comparison) error {
	return publish.Contest{
		Name: c.name, Of: c.of, Target: c.target, Rounds: rounds,
		Round: func(ctx context.Context) (ours, theirs float64, err error) {
			return b.round(ctx, c)
		},
	}.Run(ctx, b.out)
}

// round returns the rates of both sides, in messages a second, each with a new topic.
func (b *bench) round(ctx context.Context, c comparison) (one, other float64, err error) {
	sides := []struct {
		sender   sender
		messages []publisher.Message
		took     time.Duration
	}{{sender: c.subject, messages: c.messages}, {sender: c.reference, messages: c.others}}
	var topics []string
	for i := range sides {
		topics = append(topics, "bench-publish-"+strings.ToLower(rand.Text()))
		if err := b.create(ctx, topics[i], c.partitions); err != nil {
			return 0, 0, err
		}
		sides[i].sender.ready(sides[i].messages, topics[i])
		if err := sides[i].sender.send(ctx, 0, publish.Batch); err != nil { // finds the leaders
			return 0, 0, err
		}
	}
	n := len(c.messages)
	for from := 0; from < n; from += turn * publish.Batch {
		for k := range sides {
			side := &sides[(k+from/(turn*publish.Batch))%len(sides)] // the first side changes
			begun := time.Now()
			for at := from; at < min(from+turn*publish.Batch, n); at += publish.Batch {
				if err := side.sender.send(ctx, at, at+publish.Batch); err != nil {
					return 0, 0, err
				}
			}
			side.took += time.Since(begun)
		}
	}
	if _, err := b.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: topics}); err != nil {
		return 0, 0, fmt.Errorf("delete topics: %w", err)
	}
	return float64(n) / sides[0].took.Seconds(), float64(n) / sides[1].took.Seconds(), nil
}

// create makes a topic and waits until all of its partitions can be written to.
func (b *bench) create(ctx context.Context, topic string, partitions int) error {
	created, err := b.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: topic, NumPartitions: partitions,
		ReplicationFactor: 1,
	}}})
	if err == nil {
		err = created.Errors[topic]
	}
	if err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	var requests []kafka.OffsetRequest
	for n := range partitions {
		requests = append(requests, kafka.LastOffsetOf(n))
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := b.client.ListOffsets(ctx,
			&kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: requests}})
		open := err == nil && len(response.Topics[topic]) == partitions
		for i := 0; open && i < partitions; i++ {
			open = response.Topics[topic][i].Error == nil
		}
		if open {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
