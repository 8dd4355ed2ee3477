package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// RabbitMQ is a RabbitMQ server. Its topics are quorum queues, reached through the default exchange. A connection that
// has ended is replaced at the next use.
type RabbitMQ struct {
	address string

	mu         sync.Mutex
	conn       *amqp091.Connection
	confirming *amqp091.Channel // channel of conn with confirms; nil until it is needed
}

var _ Broker = (*RabbitMQ)(nil)

// OpenRabbitMQ makes a client of a server. It connects when it is used.
func OpenRabbitMQ(address string) *RabbitMQ { return &RabbitMQ{address: address} }

// Channel opens a channel, on a new connection if the present one has ended. The caller closes it.
func (r *RabbitMQ) Channel() (*amqp091.Channel, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.channel()
}

// channel is Channel with mu held.
func (r *RabbitMQ) channel() (*amqp091.Channel, error) {
	if r.conn == nil || r.conn.IsClosed() {
		r.confirming = nil
		conn, err := amqp091.Dial(r.address)
		if err != nil {
			return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
		}
		r.conn = conn
	}
	channel, err := r.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	return channel, nil
}

// on calls do with a separate channel, because an error of the server closes a channel.
func (r *RabbitMQ) on(what, topic string, do func(*amqp091.Channel) error) error {
	channel, err := r.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	if err := do(channel); err != nil {
		return fmt.Errorf("%s %s: %w", what, topic, err)
	}
	return nil
}

// Create is as in [Broker].
func (r *RabbitMQ) Create(_ context.Context, topic Topic) error {
	return r.on("declare queue", topic.Name, func(c *amqp091.Channel) error {
		_, err := c.QueueDeclare(topic.Name, true, false, false, false,
			amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum})
		return err
	})
}

// Remove is as in [Broker].
func (r *RabbitMQ) Remove(_ context.Context, topic string) error {
	return r.on("delete queue", topic, func(c *amqp091.Channel) error {
		_, err := c.QueueDelete(topic, false, false, false)
		return err
	})
}

// Count is as in [Broker].
func (r *RabbitMQ) Count(_ context.Context, topic string) (count int, err error) {
	err = r.on("look at queue", topic, func(c *amqp091.Channel) error {
		queue, err := c.QueueDeclarePassive(topic, true, false, false, false, nil)
		count = queue.Messages
		return err
	})
	return count, err
}

// Consume is as in [Broker].
func (r *RabbitMQ) Consume(ctx context.Context, topic string, receive func(Message)) error {
	err := r.consume(ctx, topic, func(d *amqp091.Delivery) bool {
		receive(delivered(d))
		return true
	})
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// Read empties the queue up to a marker that it puts at the end, because the count of a quorum queue may be old.
func (r *RabbitMQ) Read(ctx context.Context, topic string) (all []Message, err error) {
	marker := fmt.Sprint("marker", time.Now().UnixNano())
	if err := r.Publish(ctx, topic, Message{ID: marker}); err != nil {
		return nil, err
	}
	err = r.consume(ctx, topic, func(d *amqp091.Delivery) bool {
		if d.MessageId == marker {
			return false
		}
		all = append(all, delivered(d))
		return true
	})
	return all, err
}

// consume takes messages from a queue until receive returns false.
func (r *RabbitMQ) consume(ctx context.Context, topic string, receive func(*amqp091.Delivery) (goOn bool)) error {
	return r.on("consume queue", topic, func(c *amqp091.Channel) error {
		// Messages are acknowledged as they are sent: a queue that returns messages to another consumer reorders them.
		messages, err := c.ConsumeWithContext(ctx, topic, "", true, false, false, false, nil)
		if err != nil {
			return err
		}
		for m := range messages {
			if !receive(&m) {
				return nil
			}
		}
		return errors.Join(ctx.Err(), errors.New("the consumer was cut off"))
	})
}

func delivered(d *amqp091.Delivery) Message {
	m := Message{Topic: d.RoutingKey, Body: d.Body, Time: d.Timestamp, Headers: map[string]string{}, Keyless: true}
	for name, value := range d.Headers {
		if name != "x-delivery-count" && name != "x-acquired-count" { // the broker's own
			m.header(name, fmt.Sprint(value))
		}
	}
	m.ID = d.MessageId
	for name, value := range map[string]string{"content-type": d.ContentType, "correlation_id": d.CorrelationId} {
		if value != "" {
			m.Headers[name] = value
		}
	}
	return m
}

// Publish is as in [Broker].
func (r *RabbitMQ) Publish(ctx context.Context, topic string, m Message) error {
	confirm, err := r.publish(ctx, topic, m)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	if confirmed, err := confirm.WaitContext(ctx); err != nil || !confirmed {
		return errors.Join(fmt.Errorf("publish to %s: not confirmed", topic), err)
	}
	return nil
}

func (r *RabbitMQ) publish(ctx context.Context, topic string, m Message) (*amqp091.DeferredConfirmation, error) {
	r.mu.Lock() // a channel with confirms numbers its publishes
	defer r.mu.Unlock()
	if r.confirming == nil || r.confirming.IsClosed() {
		channel, err := r.channel()
		if err != nil {
			return nil, err
		}
		if err := channel.Confirm(false); err != nil {
			return nil, err
		}
		r.confirming = channel
	}
	return r.confirming.PublishWithDeferredConfirmWithContext(ctx, "", topic, true, false,
		amqp091.Publishing{MessageId: m.ID, DeliveryMode: amqp091.Persistent, Body: m.Body})
}

// Close is as in [Broker].
func (r *RabbitMQ) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close() // nothing on it can be lost
	}
}
