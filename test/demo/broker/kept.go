package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

const partitions = 4 // number of partitions of a Kafka topic

// kept is a topic in a broker that keeps messages.
type kept struct {
	testkit.Broker
	name, url, topic string
	ends             int    // number of partitions in which End puts a mark
	stop             func() // ends the server, if Open started it
}

func openKept(ctx context.Context, b *kept, topic Topic) (Broker, error) {
	err := b.Create(ctx, testkit.Topic{
		Name: topic.Name, Most: topic.Most, Partitions: partitions,
		// A stream drops messages that a relay publishes twice within this time, and the check does not see them. The
		// default is two minutes; this is the shortest possible time.
		Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		b.end()
		return nil, err
	}
	b.topic = topic.Name
	return b, nil
}

func (b *kept) Name() string { return b.name }
func (b *kept) URL() string  { return b.url }

func (b *kept) Consume(ctx context.Context, arrived func(ledger.Arrival)) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	marks := make(chan struct{}, b.ends)
	err := b.Broker.Consume(reading, b.topic, func(m testkit.Message) {
		if m.ID != endMark {
			arrived(ledger.Arrival{
				ID: m.ID, Key: m.Key, Payload: string(m.Body), Why: m.Headers[whyFailed],
				At: time.Now(),
			})
			return
		}
		if marks <- struct{}{}; len(marks) == b.ends {
			stop()
		}
	})
	return errors.Join(err, ctx.Err())
}

func (b *kept) End(ctx context.Context) error {
	for partition := range b.ends {
		if err := b.Publish(ctx, b.topic, testkit.Message{ID: endMark, Partition: partition}); err != nil {
			return fmt.Errorf("publish end mark: %w", err)
		}
	}
	return nil
}

func (b *kept) Close(ctx context.Context) error {
	defer b.end()
	return b.Remove(ctx, b.topic)
}

func (b *kept) end() {
	b.Broker.Close()
	if b.stop != nil {
		b.stop()
	}
}
