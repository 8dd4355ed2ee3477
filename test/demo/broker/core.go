package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

// coreBroker is a NATS server inside this process and a subscription: nothing is kept for those who come later.
type coreBroker struct {
	server   *server.Server
	conn     *nats.Conn
	messages chan *nats.Msg
	topic    string
}

func openCore(topic string) (_ Broker, err error) {
	b := &coreBroker{topic: topic, messages: make(chan *nats.Msg, 100_000)}
	if b.server, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}); err != nil {
		return nil, fmt.Errorf("make NATS server: %w", err)
	}
	defer func() {
		if err != nil {
			_ = b.Close(context.Background())
		}
	}()
	b.server.Start()
	if !b.server.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("the NATS server does not start")
	}
	if b.conn, err = nats.Connect(b.server.ClientURL()); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if _, err = b.conn.ChanSubscribe(topic, b.messages); err == nil {
		err = b.conn.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return b, nil
}

func (b *coreBroker) Name() string { return "core NATS" }
func (b *coreBroker) URL() string  { return b.server.ClientURL() }

func (b *coreBroker) Consume(ctx context.Context, arrived func(ledger.Arrival)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-b.messages:
			a := ledger.Arrival{ID: m.Header.Get(messageID), Key: m.Header.Get(messageKey), Payload: string(m.Data), At: time.Now()}
			if a.ID == endMark {
				return nil
			}
			arrived(a)
		}
	}
}

func (b *coreBroker) End(context.Context) error {
	if err := b.conn.PublishMsg(&nats.Msg{Subject: b.topic, Header: nats.Header{messageID: {endMark}}}); err != nil {
		return fmt.Errorf("publish end mark: %w", err)
	}
	return nil
}

func (b *coreBroker) Close(context.Context) error {
	if b.conn != nil {
		b.conn.Close()
	}
	b.server.Shutdown()
	b.server.WaitForShutdown()
	return nil
}
