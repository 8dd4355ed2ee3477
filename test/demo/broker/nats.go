package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

// natsBroker is a NATS server with JetStream inside this process, and a stream of one subject.
type natsBroker struct {
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	topic  string
}

func openNATS(ctx context.Context, topic Topic, dir string) (_ Broker, err error) {
	b := &natsBroker{topic: topic.Name}
	b.server, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir,
		NoSigs: true, NoLog: true})
	if err != nil {
		return nil, fmt.Errorf("make NATS server: %w", err)
	}
	defer func() {
		if err != nil {
			_ = b.Close(ctx)
		}
	}()
	b.server.Start()
	if !b.server.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("the NATS server does not start")
	}
	if b.conn, err = nats.Connect(b.server.ClientURL()); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if b.js, err = jetstream.New(b.conn); err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{Name: "demo", Subjects: []string{topic.Name}, MaxMsgSize: mostOf(topic),
		// What a relay publishes twice within this time the stream drops, and the check does not see it.
		// The default is two minutes; this is the shortest there is.
		Duplicates: 100 * time.Millisecond})
	if err != nil {
		return nil, fmt.Errorf("create stream: %w", err)
	}
	return b, nil
}

// mostOf is JetStream's limit of a message.
func mostOf(topic Topic) int32 {
	if topic.Most == 0 {
		return -1
	}
	return int32(topic.Most)
}

func (b *natsBroker) Name() string { return "NATS JetStream" }
func (b *natsBroker) URL() string  { return b.server.ClientURL() }

func (b *natsBroker) Consume(ctx context.Context, arrived func(ledger.Arrival)) error {
	consumer, err := b.js.OrderedConsumer(ctx, "demo", jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read stream: %w", err)
		}
		a := ledger.Arrival{ID: m.Headers().Get(messageID), Key: m.Headers().Get(messageKey), Payload: string(m.Data()), Why: m.Headers().Get(whyFailed), At: time.Now()}
		if a.ID == endMark {
			return nil
		}
		arrived(a)
	}
}

func (b *natsBroker) End(ctx context.Context) error {
	if _, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.topic, Header: nats.Header{messageID: {endMark}}}); err != nil {
		return fmt.Errorf("publish end mark: %w", err)
	}
	return nil
}

func (b *natsBroker) Close(context.Context) error {
	if b.conn != nil {
		b.conn.Close()
	}
	b.server.Shutdown()
	b.server.WaitForShutdown()
	return nil
}
