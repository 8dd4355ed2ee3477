package testkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS is a NATS server with JetStream.
type NATS struct {
	JetStream jetstream.JetStream
	conn      *nats.Conn
}

var _ Broker = (*NATS)(nil)

// OpenNATS connects to a server, and reconnects whenever the connection ends.
func OpenNATS(address string, options ...nats.Option) (*NATS, error) {
	conn, err := nats.Connect(address, append(options, nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &NATS{JetStream: js, conn: conn}, nil
}

// StreamOf returns the name of a topic's stream: the subject without its dots, which a stream's name cannot contain.
func StreamOf(topic string) string { return strings.ReplaceAll(topic, ".", "_") }

// storeFailed is the code of a JetStream error. When an account's last stream is deleted, the server removes the
// directory in which it may be making the next stream.
const storeFailed = 10049

// Create is as in [Broker].
func (n *NATS) Create(ctx context.Context, topic Topic) error {
	config := jetstream.StreamConfig{
		Name: StreamOf(topic.Name), Subjects: []string{topic.Name}, Replicas: max(topic.Replicas, 1),
		Storage: jetstream.FileStorage, MaxMsgSize: -1, Duplicates: max(topic.Duplicates, 100*time.Millisecond),
	}
	if topic.Most > 0 {
		config.MaxMsgSize = int32(topic.Most)
	}
	_, err := n.JetStream.CreateStream(ctx, config)
	for refused := (*jetstream.APIError)(nil); errors.As(err, &refused) && refused.ErrorCode == storeFailed &&
		ctx.Err() == nil; {
		_, err = n.JetStream.CreateStream(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("create stream %s: %w", config.Name, err)
	}
	return nil
}

// Remove is as in [Broker].
func (n *NATS) Remove(ctx context.Context, topic string) error {
	if err := n.JetStream.DeleteStream(ctx, StreamOf(topic)); err != nil {
		return fmt.Errorf("delete stream %s: %w", StreamOf(topic), err)
	}
	return nil
}

// Count is as in [Broker].
func (n *NATS) Count(ctx context.Context, topic string) (int, error) {
	stream, err := n.JetStream.Stream(ctx, StreamOf(topic))
	if err != nil {
		return 0, fmt.Errorf("find stream %s: %w", StreamOf(topic), err)
	}
	return int(stream.CachedInfo().State.Msgs), nil
}

// Consume is as in [Broker].
func (n *NATS) Consume(ctx context.Context, topic string, receive func(Message)) error {
	err := n.consume(ctx, topic, func(m Message) bool {
		receive(m)
		return true
	})
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// Read is as in [Broker].
func (n *NATS) Read(ctx context.Context, topic string) (all []Message, err error) {
	left, err := n.Count(ctx, topic)
	if err != nil || left == 0 {
		return nil, err
	}
	err = n.consume(ctx, topic, func(m Message) bool {
		all = append(all, m)
		return len(all) < left
	})
	return all, err
}

// consume reads a stream until receive returns false.
func (n *NATS) consume(ctx context.Context, topic string, receive func(Message) (goOn bool)) error {
	consumer, err := n.JetStream.OrderedConsumer(ctx, StreamOf(topic), jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", StreamOf(topic), err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read stream %s: %w", StreamOf(topic), err)
	}
	defer messages.Stop()
	for {
		got, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read stream %s: %w", StreamOf(topic), err)
		}
		place, err := got.Metadata()
		if err != nil {
			return fmt.Errorf("read stream %s: %w", StreamOf(topic), err)
		}
		m := Message{
			Topic: got.Subject(), Body: got.Data(), Headers: map[string]string{}, Keyless: true,
			Time: place.Timestamp, Offset: int64(place.Sequence.Stream),
		}
		for name, values := range got.Headers() {
			m.header(name, values[0])
		}
		if !receive(m) {
			return nil
		}
	}
}

// Publish is as in [Broker].
func (n *NATS) Publish(ctx context.Context, topic string, m Message) error {
	message := &nats.Msg{Subject: topic, Data: m.Body}
	if m.ID != "" {
		message.Header = nats.Header{headerID: {m.ID}}
	}
	if _, err := n.JetStream.PublishMsg(ctx, message); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// Close is as in [Broker].
func (n *NATS) Close() { n.conn.Close() }
