package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/test/bench/publish"
)

// ours is the relay's publisher.
type ours struct {
	publisher *amqp.Publisher
	after     func()
}

func newOurs(ctx context.Context, config amqp.Config) (*ours, error) {
	p := amqp.New(config)
	if err := p.Ping(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &ours{publisher: p, after: func() {}}, nil
}

func (o *ours) send(ctx context.Context, messages []publisher.Message) error {
	return errors.Join(o.publisher.Publish(ctx, messages)...)
}

func (o *ours) close() {
	_ = o.publisher.Close()
	o.after()
}

// raw is the client library with one channel: it sends a window of messages, with the same bytes on the
// wire, and waits until all are confirmed.
type raw struct {
	conn     *amqp091.Connection
	channel  *amqp091.Channel
	confirms []*amqp091.DeferredConfirmation
	returns  chan amqp091.Return
}

func newRaw(url string) (*raw, error) {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	returns := channel.NotifyReturn(make(chan amqp091.Return, publish.Batch))
	return &raw{conn: conn, channel: channel, returns: returns}, nil
}

func (r *raw) send(ctx context.Context, messages []publisher.Message) error {
	r.confirms = r.confirms[:0]
	for i := range messages {
		m := &messages[i]
		headers := amqp091.Table{publisher.HeaderMessageKey: string(m.Key)}
		for _, h := range m.Headers {
			headers[h.Name] = h.Value
		}
		confirm, err := r.channel.PublishWithDeferredConfirm("", m.Topic, true, false, amqp091.Publishing{
			DeliveryMode: amqp091.Persistent,
			MessageId:    m.ID, ContentType: m.Type, Timestamp: m.Inserted, Headers: headers, Body: m.Payload,
		})
		if err != nil {
			return err
		}
		r.confirms = append(r.confirms, confirm)
	}
	for _, confirm := range r.confirms {
		if acked, err := confirm.WaitContext(ctx); err != nil {
			return err
		} else if !acked {
			return errors.New("not confirmed")
		}
	}
	if len(r.returns) > 0 {
		return errors.New("returned")
	}
	return nil
}

func (r *raw) close() { _ = r.conn.CloseDeadline(time.Now().Add(time.Second)) }
