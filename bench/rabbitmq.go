package main

import (
	"context"

	"github.com/rabbitmq/amqp091-go"
)

type rabbitBroker struct {
	conn    *amqp091.Connection
	channel *amqp091.Channel
}

func newRabbit(address string) (*rabbitBroker, error) {
	conn, err := amqp091.Dial(address)
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	return &rabbitBroker{conn: conn, channel: channel}, err
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

func (b *rabbitBroker) close() { _ = b.conn.Close() }
