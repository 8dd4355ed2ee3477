package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

type rabbitBroker struct {
	conn    *amqp091.Connection
	channel *amqp091.Channel

	mu         sync.Mutex // a channel with confirms numbers its publishes
	confirming *amqp091.Channel
}

func newRabbit(address string) (*rabbitBroker, error) {
	conn, err := amqp091.Dial(address)
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	confirming, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	return &rabbitBroker{conn: conn, channel: channel, confirming: confirming}, confirming.Confirm(false)
}

func (b *rabbitBroker) create(_ context.Context, topic string) error {
	_, err := b.channel.QueueDeclare(topic, true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum})
	return err
}

func (b *rabbitBroker) remove(_ context.Context, topic string) error {
	_, err := b.channel.QueueDelete(topic, false, false, false)
	return err
}

// count is late by some seconds: a quorum queue refreshes what it tells now and then.
func (b *rabbitBroker) count(_ context.Context, topic string) (int, error) {
	queue, err := b.channel.QueueDeclarePassive(topic, true, false, false, false, nil)
	return queue.Messages, err
}

func (b *rabbitBroker) consume(ctx context.Context, topic string, receive func([]byte)) error {
	channel, err := b.conn.Channel()
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer channel.Close()
	messages, err := channel.ConsumeWithContext(ctx, topic, "", true, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for message := range messages { // until ctx ends
		receive(message.Body)
	}
	return nil
}

func (b *rabbitBroker) publish(ctx context.Context, topic string, body []byte) error {
	b.mu.Lock()
	confirm, err := b.confirming.PublishWithDeferredConfirmWithContext(ctx, "", topic, false, false,
		amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: body})
	b.mu.Unlock()
	if err != nil {
		return err
	}
	if confirmed, err := confirm.WaitContext(ctx); err != nil || !confirmed {
		return errors.Join(errors.New("not confirmed"), err)
	}
	return nil
}

// oneByOne measures how many messages a second a queue confirms when each waits for the one before.
func (b *rabbitBroker) oneByOne(ctx context.Context, topic string, enough time.Duration) (float64, error) {
	body := make([]byte, 512)
	started, n := time.Now(), 0
	for ; time.Since(started) < enough; n++ {
		if err := b.publish(ctx, topic, body); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(started).Seconds(), nil
}

// reportOneByOne states what one unconfirmed message for each key allows on an idle broker.
func reportOneByOne(ctx context.Context, r *report, b *rabbitBroker, hot int) (err error) {
	topic, remove, err := namedBroker{broker: b}.topic(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	perSecond, err := b.oneByOne(ctx, topic, 3*time.Second)
	if err != nil {
		return err
	}
	r.state("rabbitmq", "confirms/s one by one, the broker otherwise idle", "%.0f", perSecond)
	r.state("rabbitmq", fmt.Sprintf("rows/s that allows, %d %% on a hot key", hot), "%.0f", perSecond*100/float64(hot))
	return nil
}

func (b *rabbitBroker) close() { _ = b.conn.Close() }
