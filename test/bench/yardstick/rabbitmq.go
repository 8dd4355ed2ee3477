package main

import (
	"context"
	"errors"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// rabbitPublisher publishes a batch, persistent and mandatory, on one channel and then waits for every
// confirm.
type rabbitPublisher struct {
	conn     *amqp091.Connection
	channel  *amqp091.Channel
	queue    string
	confirms []*amqp091.DeferredConfirmation
	returns  chan amqp091.Return
}

func newRabbit(url, queue string, batch int) (*rabbitPublisher, error) {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	p := &rabbitPublisher{
		conn: conn, channel: channel, queue: queue,
		returns: channel.NotifyReturn(make(chan amqp091.Return, batch)),
	}
	return p, channel.Confirm(false)
}

func (p *rabbitPublisher) publish(ctx context.Context, batch []message) error {
	p.confirms = p.confirms[:0]
	now := time.Now()
	for i := range batch {
		m := &batch[i]
		headers := amqp091.Table{"message-key": m.key}
		for _, h := range m.headers {
			headers[h.key] = h.value
		}
		confirm, err := p.channel.PublishWithDeferredConfirmWithContext(ctx, "", p.queue, true, false,
			amqp091.Publishing{
				DeliveryMode: amqp091.Persistent, MessageId: m.text, Timestamp: now, Headers: headers, Body: m.payload,
			})
		if err != nil {
			return err
		}
		p.confirms = append(p.confirms, confirm)
	}
	for _, confirm := range p.confirms {
		if acked, err := confirm.WaitContext(ctx); err != nil {
			return err
		} else if !acked {
			return errors.New("not confirmed")
		}
	}
	select {
	case returned := <-p.returns:
		return errors.New("returned: " + returned.ReplyText)
	default:
		return nil
	}
}

func (p *rabbitPublisher) close() { _ = p.conn.CloseDeadline(time.Now().Add(time.Second)) }
