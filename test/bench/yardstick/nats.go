package main

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPublisher publishes a batch asynchronously with message ids and then waits for every ack.
type natsPublisher struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	subject string
	acks    []jetstream.PubAckFuture
}

func newNATS(url, subject string, batch int) (*natsPublisher, error) {
	conn, err := nats.Connect(url, nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*batch))
	return &natsPublisher{conn: conn, js: js, subject: subject}, err
}

func (p *natsPublisher) publish(ctx context.Context, batch []message) error {
	p.acks = p.acks[:0]
	for i := range batch {
		m := &batch[i]
		header := make(nats.Header, len(m.headers)+2)
		header[jetstream.MsgIDHeader] = []string{m.text}
		header["message-key"] = []string{m.key}
		for _, h := range m.headers {
			header[h.key] = []string{h.value}
		}
		ack, err := p.js.PublishMsgAsync(&nats.Msg{Subject: p.subject, Header: header, Data: m.payload},
			jetstream.WithRetryAttempts(0))
		if err != nil {
			return err
		}
		p.acks = append(p.acks, ack)
	}
	for _, ack := range p.acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *natsPublisher) close() { p.conn.Close() }
