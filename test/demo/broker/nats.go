package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// startNATS starts a server inside this process; stop ends it.
func startNATS(options server.Options) (url string, stop func(), err error) {
	options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(&options)
	if err != nil {
		return "", nil, fmt.Errorf("make NATS server: %w", err)
	}
	s.Start()
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return "", nil, errors.New("the NATS server does not start")
	}
	return s.ClientURL(), stop, nil
}

// openNATS makes a stream in a server with JetStream inside this process, with its data in dir.
func openNATS(ctx context.Context, topic Topic, dir string) (Broker, error) {
	url, stop, err := startNATS(server.Options{JetStream: true, StoreDir: dir})
	if err != nil {
		return nil, err
	}
	client, err := testkit.OpenNATS(url)
	if err != nil {
		stop()
		return nil, err
	}
	return openKept(ctx, &kept{Broker: client, name: "NATS JetStream", url: url, ends: 1, stop: stop}, topic)
}

// core is a NATS server inside this process and a subscription: nothing is kept for later subscribers.
type core struct {
	url      string
	stop     func()
	conn     *nats.Conn
	messages chan *nats.Msg
	topic    string
}

func openCore(ctx context.Context, topic string) (Broker, error) {
	url, stop, err := startNATS(server.Options{})
	if err != nil {
		return nil, err
	}
	b := &core{url: url, stop: stop, topic: topic, messages: make(chan *nats.Msg, 100_000)}
	if b.conn, err = nats.Connect(url); err != nil {
		stop()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if _, err = b.conn.ChanSubscribe(topic, b.messages); err == nil {
		err = b.conn.Flush()
	}
	if err != nil {
		_ = b.Close(ctx) // returns no error
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return b, nil
}

func (b *core) Name() string { return "core NATS" }
func (b *core) URL() string  { return b.url }

func (b *core) Consume(ctx context.Context, arrived func(ledger.Arrival)) error {
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

func (b *core) End(context.Context) error {
	if err := b.conn.PublishMsg(&nats.Msg{Subject: b.topic, Header: nats.Header{messageID: {endMark}}}); err != nil {
		return fmt.Errorf("publish end mark: %w", err)
	}
	return nil
}

func (b *core) Close(context.Context) error {
	b.conn.Close()
	b.stop()
	return nil
}
