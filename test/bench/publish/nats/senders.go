package nats

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher"
	ours "github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/test/bench/publish"
	"github.com/outbox-relay/outbox-relay/test/bench/publish/tlsproxy"
)

// raw publishes with the client library's defaults, in windows.
type raw struct {
	conn *nats.Conn
	js   jetstream.JetStream
	acks []jetstream.PubAckFuture
}

func newRaw(url string) (*raw, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*publish.Batch))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return &raw{conn: conn, js: js}, nil
}

// send publishes one window: the same messages with the same headers.
func (r *raw) send(ctx context.Context, messages []publisher.Message) error {
	r.acks = r.acks[:0]
	for i := range messages {
		m := &messages[i]
		header := nats.Header{
			jetstream.MsgIDHeader: {m.DedupID}, publisher.HeaderMessageID: {m.ID},
			publisher.HeaderMessageKey: {string(m.Key)}, publisher.HeaderContentType: {m.Type},
		}
		for _, h := range m.Headers {
			header[h.Name] = []string{h.Value}
		}
		ack, err := r.js.PublishMsgAsync(&nats.Msg{Subject: m.Topic, Header: header, Data: m.Payload},
			jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		r.acks = append(r.acks, ack)
	}
	for _, ack := range r.acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("acknowledge: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *raw) close() { r.conn.Close() }

// relays publishes with the relay's publisher.
type relays struct {
	publisher *ours.Publisher
	after     func() // stops the proxy that it used
}

func newOurs(ctx context.Context, url string) (*relays, error) {
	return open(ctx, ours.Config{Servers: []string{url}})
}

func open(ctx context.Context, config ours.Config) (*relays, error) {
	p, err := ours.New(config)
	if err != nil {
		return nil, err
	}
	if err := p.Ping(ctx); err != nil {
		_ = p.Close()
		return nil, err
	}
	return &relays{publisher: p, after: func() {}}, nil
}

func (r *relays) send(ctx context.Context, messages []publisher.Message) error {
	for _, err := range r.publisher.Publish(ctx, messages) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *relays) close() {
	_ = r.publisher.Close()
	r.after()
}

// throughProxies returns two publishers that reach the server through a proxy in this process, one of them with TLS up
// to the proxy. Any server can therefore be used, and the measurement includes the cost of TLS at both ends.
func throughProxies(ctx context.Context, address string) (secure, plain *relays, err error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("the address is not a URL")
	}
	server, client, err := tlsproxy.Configs()
	if err != nil {
		return nil, nil, err
	}
	start := func(server *tls.Config,
		dial func(ctx context.Context, network, address string) (net.Conn, error),
	) (*relays, error) {
		host, stop, err := tlsproxy.Start(ctx, server, target.Host)
		if err != nil {
			return nil, err
		}
		through := url.URL{Scheme: "nats", User: target.User, Host: host}
		r, err := open(ctx, ours.Config{Servers: []string{through.String()}, Dial: dial})
		if err != nil {
			stop()
			return nil, err
		}
		r.after = stop
		return r, nil
	}
	if plain, err = start(nil, new(net.Dialer).DialContext); err != nil {
		return nil, nil, err
	}
	// The server does not support TLS and would refuse to negotiate it, so TLS is added below the client library.
	if secure, err = start(server, (&tls.Dialer{Config: client}).DialContext); err != nil {
		plain.close()
		return nil, nil, err
	}
	return secure, plain, nil
}
