package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type natsBroker struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

func newNATS(address string) (*natsBroker, error) {
	conn, err := nats.Connect(address)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	return &natsBroker{conn: conn, js: js}, err
}

func (b *natsBroker) create(ctx context.Context, topic string) error {
	_, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: topic, Subjects: []string{topic},
		Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute})
	return err
}

func (b *natsBroker) remove(ctx context.Context, topic string) error {
	return b.js.DeleteStream(ctx, topic)
}

func (b *natsBroker) count(ctx context.Context, topic string) (int, error) {
	stream, err := b.js.Stream(ctx, topic)
	if err != nil {
		return 0, err
	}
	return int(stream.CachedInfo().State.Msgs), nil
}

func (b *natsBroker) consume(ctx context.Context, topic string, receive func([]byte)) error {
	consumer, err := b.js.OrderedConsumer(ctx, topic, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	consuming, err := consumer.Consume(func(message jetstream.Msg) { receive(message.Data()) })
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	<-ctx.Done()
	consuming.Stop()
	<-consuming.Closed()
	return nil
}

func (b *natsBroker) publish(ctx context.Context, topic string, body []byte) error {
	_, err := b.js.Publish(ctx, topic, body)
	return err
}

func (b *natsBroker) close() { b.conn.Close() }
