package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

// rabbit is an exchange with one quorum queue for all topics, so that the order of the queue is the order of all
// arrivals. RabbitMQ does not record times of arrival; a clock of this package writes the time into the queue.
type rabbit struct {
	target Target
	name   string

	mu   sync.Mutex
	conn *amqp091.Connection
}

const (
	tick     = "tick" // routing key and type of the clock's messages
	lastTick = "last"
)

func (*rabbit) URL(address string) string { return "amqp://guest:guest@" + address + "/" }

// Environment returns the exchange. A message for a topic that is not bound must not be routable.
func (r *rabbit) Environment() []string { return []string{"OUTBOX_AMQP_EXCHANGE=" + r.name} }

// channel opens a channel on the present connection, or on a new one, because the broker may have been killed.
func (r *rabbit) channel() (*amqp091.Channel, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil || r.conn.IsClosed() {
		conn, err := r.dial()
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

// dialTime is the time in which a node must answer before another one is tried.
const dialTime = 3 * time.Second

// dial connects to the first node that answers.
func (r *rabbit) dial() (conn *amqp091.Connection, err error) {
	for _, address := range r.target.Addresses {
		conn, err = amqp091.DialConfig(r.URL(address),
			amqp091.Config{Dial: amqp091.DefaultDial(dialTime), Heartbeat: dialTime})
		if err == nil {
			break
		}
	}
	return conn, err
}

// Replicated returns the queue.
func (r *rabbit) Replicated() []string { return []string{r.name} }

func (r *rabbit) Create(ctx context.Context, topic string) error {
	return again(ctx, func() error {
		channel, err := r.channel()
		if err != nil {
			return err
		}
		defer channel.Close()
		if err := channel.ExchangeDeclare(r.name, "direct", true, false, false, false, nil); err != nil {
			return fmt.Errorf("declare exchange: %w", err)
		}
		quorum := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum}
		if _, err := channel.QueueDeclare(r.name, true, false, false, false, quorum); err != nil {
			return fmt.Errorf("declare queue: %w", err)
		}
		for _, key := range []string{topic, r.name + tick} {
			if err := channel.QueueBind(r.name, key, r.name, false, nil); err != nil {
				return fmt.Errorf("bind %s: %w", key, err)
			}
		}
		return nil
	})
}

// Accompany publishes the clock's messages.
func (r *rabbit) Accompany(ctx context.Context) {
	for ctx.Err() == nil {
		channel, err := r.channel()
		for err == nil && ctx.Err() == nil {
			err = r.tick(ctx, channel, tick)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		if channel != nil {
			_ = channel.Close() // the channel is broken
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (r *rabbit) tick(ctx context.Context, channel *amqp091.Channel, kind string) error {
	return channel.PublishWithContext(ctx, r.name, r.name+tick, false, false, amqp091.Publishing{
		Type: kind,
		Body: []byte(time.Now().Format(time.RFC3339Nano)), DeliveryMode: amqp091.Persistent,
	})
}

// Read empties the queue up to a last tick, because the message count that a quorum queue reports may be old.
func (r *rabbit) Read(ctx context.Context) ([]history.Delivery, error) {
	channel, err := r.channel()
	if err != nil {
		return nil, err
	}
	defer channel.Close()
	if err := r.tick(ctx, channel, lastTick); err != nil {
		return nil, fmt.Errorf("publish the last tick: %w", err)
	}
	messages, err := channel.Consume(r.name, "", true, true, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume the queue: %w", err)
	}
	var all []history.Delivery
	untimed := 0 // number of last deliveries without a time
	for offset := int64(0); ; offset++ {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("consume the queue after %d messages: %w", offset, ctx.Err())
		case m, open := <-messages:
			if !open {
				return nil, errors.New("consume the queue: RabbitMQ ended it")
			}
			if m.Exchange != r.name || m.RoutingKey != r.name+tick {
				key, _ := m.Headers[headerKey].(string)
				failure, _ := m.Headers[headerFailed].(string)
				all = append(all, history.Delivery{
					Stream: r.name, Offset: offset, ID: m.MessageId, Topic: m.RoutingKey, Key: key, Body: body(m.Body),
					Failure: failure,
				})
				untimed++
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, string(m.Body))
			if err != nil {
				return nil, fmt.Errorf("read a tick: %w", err)
			}
			for i := len(all) - untimed; i < len(all); i++ {
				all[i].At = at
			}
			if untimed = 0; m.Type == lastTick {
				return all, nil
			}
		}
	}
}

func (r *rabbit) Close(context.Context) {
	if channel, err := r.channel(); err == nil {
		_, _ = channel.QueueDelete(r.name, false, false, false) // best effort
		_ = channel.ExchangeDelete(r.name, false, false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close() // nothing on it can be lost
	}
}
