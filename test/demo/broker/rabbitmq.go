package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

// rabbitBroker is a quorum queue in a RabbitMQ that runs already, reached through the default exchange.
type rabbitBroker struct {
	url     string
	queue   string
	conn    *amqp091.Connection
	channel *amqp091.Channel
}

func openRabbitMQ(queue, address string) (_ Broker, err error) {
	if address == "" {
		return nil, errors.New("TEST_AMQP_URL is not set: run `make demo BROKER=rabbitmq`, or eval \"$(dev/services.sh env)\" first")
	}
	b := &rabbitBroker{url: address, queue: queue}
	if b.conn, err = amqp091.Dial(address); err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	defer func() {
		if err != nil {
			_ = b.conn.Close()
		}
	}()
	if b.channel, err = b.conn.Channel(); err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	if _, err = b.channel.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"}); err != nil {
		return nil, fmt.Errorf("declare queue: %w", err)
	}
	return b, nil
}

func (b *rabbitBroker) Name() string { return "RabbitMQ" }
func (b *rabbitBroker) URL() string  { return b.url }

func (b *rabbitBroker) Consume(ctx context.Context, arrived func(ledger.Arrival)) error {
	channel, err := b.conn.Channel() // of its own: the other one is used at the same time
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	defer channel.Close()
	// Acknowledged as they are sent: a queue that returns messages to another consumer reorders them.
	messages, err := channel.Consume(b.queue, "", true, true, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume queue: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, ok := <-messages:
			if !ok {
				return errors.New("RabbitMQ ended the consumer")
			}
			if m.MessageId == endMark {
				return nil
			}
			key, _ := m.Headers[messageKey].(string)
			arrived(ledger.Arrival{ID: m.MessageId, Key: key, Payload: string(m.Body), At: time.Now()})
		}
	}
}

func (b *rabbitBroker) End(ctx context.Context) error {
	if err := b.channel.PublishWithContext(ctx, "", b.queue, false, false, amqp091.Publishing{MessageId: endMark}); err != nil {
		return fmt.Errorf("publish end mark: %w", err)
	}
	return nil
}

func (b *rabbitBroker) Close(context.Context) error {
	_, err := b.channel.QueueDelete(b.queue, false, false, false)
	if err := errors.Join(err, b.conn.Close()); err != nil {
		return fmt.Errorf("delete queue %s: %w", b.queue, err)
	}
	return nil
}
