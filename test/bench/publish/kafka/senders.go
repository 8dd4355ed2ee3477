package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/kafka"
	"github.com/outbox-relay/outbox-relay/test/bench/publish"
	"github.com/outbox-relay/outbox-relay/test/bench/publish/tlsproxy"
)

// ours is the relay's publisher.
type ours struct {
	publisher *kafka.Publisher
	messages  []publisher.Message
	after     func()
}

func newOurs(address string, change ...func(*kafka.Config)) *ours {
	c := kafka.Config{Brokers: strings.Split(address, ","), ClientID: "bench", Logger: slog.New(slog.DiscardHandler)}
	for _, each := range change {
		each(&c)
	}
	return &ours{publisher: kafka.New(c), after: func() {}}
}

func (o *ours) ready(messages []publisher.Message, topic string) {
	o.messages = publish.WithTopic(messages, topic)
}

func (o *ours) send(ctx context.Context, from, to int) error {
	for _, err := range o.publisher.Publish(ctx, o.messages[from:to]) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) close() {
	_ = o.publisher.Close()
	o.after()
}

// franz is franz-go's producer, configured like the publisher: idempotent, with acks of all replicas, murmur2, no
// linger and no compression.
type franz struct {
	client  *kgo.Client
	records []*kgo.Record
}

func newFranz(address string, messages []publisher.Message) (*franz, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(address, ",")...), kgo.ClientID("bench"),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return nil, fmt.Errorf("franz-go: %w", err)
	}
	f := &franz{client: client}
	for i := range messages {
		m := &messages[i]
		r := &kgo.Record{Key: m.Key, Value: m.Payload, Timestamp: m.Inserted, Headers: []kgo.RecordHeader{
			{Key: publisher.HeaderMessageID, Value: []byte(m.ID)},
			{Key: publisher.HeaderContentType, Value: []byte(m.Type)},
		}}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
		}
		f.records = append(f.records, r)
	}
	return f, nil
}

func (f *franz) ready(messages []publisher.Message, topic string) {
	for i := range f.records[:len(messages)] {
		f.records[i].Topic = topic
	}
}

func (f *franz) send(ctx context.Context, from, to int) error {
	return f.client.ProduceSync(ctx, f.records[from:to]...).FirstErr()
}

func (f *franz) close() { f.client.Close() }

// throughProxies returns two publishers that reach the broker through a proxy in this process, one of them with TLS up
// to the proxy.
func throughProxies(ctx context.Context, broker string) (secure, plain *ours, err error) {
	if strings.Contains(broker, ",") {
		return nil, nil, errors.New("TLS is measured with a single broker")
	}
	server, client, err := tlsproxy.Configs()
	if err != nil {
		return nil, nil, err
	}
	client.ServerName = "127.0.0.1"
	open := func(server *tls.Config, change func(*kafka.Config)) (*ours, error) {
		address, stop, err := tlsproxy.Start(ctx, server, broker)
		if err != nil {
			return nil, err
		}
		o := newOurs(broker, change, func(c *kafka.Config) {
			c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			}
		})
		o.after = stop
		return o, nil
	}
	if plain, err = open(nil, func(*kafka.Config) {}); err != nil {
		return nil, nil, err
	}
	if secure, err = open(server, func(c *kafka.Config) {
		c.TLS = func() (*tls.Config, error) { return client, nil }
	}); err != nil {
		plain.close()
		return nil, nil, err
	}
	return secure, plain, nil
}
