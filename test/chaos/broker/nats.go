package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

// natsStream is one stream for all topics, so that its order is the order of all arrivals.
type natsStream struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	name     string
	replicas int
	subjects []string
}

func openNATS(target Target, name string) (*natsStream, error) {
	conn, err := nats.Connect("nats://"+strings.Join(target.Addresses, ",nats://"), nats.MaxReconnects(-1),
		nats.ReconnectWait(pause),
		nats.IgnoreDiscoveredServers(), nats.PingInterval(time.Second))
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &natsStream{conn: conn, js: js, name: name, replicas: target.Replicas}, nil
}

func (*natsStream) URL(address string) string { return "nats://" + address }
func (*natsStream) Environment() []string     { return nil }

// Create adds a subject to the stream. The stream drops almost no duplicates, so that they can be counted.
func (s *natsStream) Create(ctx context.Context, topic string) error {
	if !slices.Contains(s.subjects, topic) {
		s.subjects = append(s.subjects, topic)
	}
	config := jetstream.StreamConfig{
		Name: s.name, Subjects: s.subjects, Storage: jetstream.FileStorage, Duplicates: 100 * time.Millisecond,
		Replicas: s.replicas,
	}
	err := again(ctx, func() error {
		_, err := s.js.CreateOrUpdateStream(ctx, config)
		return err
	})
	if err != nil {
		return fmt.Errorf("create stream %s: %w", s.name, err)
	}
	return nil
}

// Replicated returns the stream.
func (s *natsStream) Replicated() []string { return []string{s.name} }

func (*natsStream) Accompany(context.Context) {}

func (s *natsStream) Read(ctx context.Context) ([]history.Delivery, error) {
	stream, err := s.js.Stream(ctx, s.name)
	if err != nil {
		return nil, fmt.Errorf("find stream %s: %w", s.name, err)
	}
	left := stream.CachedInfo().State.Msgs
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", s.name, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", s.name, err)
	}
	defer messages.Stop()
	var all []history.Delivery
	for range left {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("read stream %s after %d of %d messages: %w", s.name, len(all), left, err)
		}
		place, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", s.name, err)
		}
		all = append(all, history.Delivery{
			Stream: s.name, Offset: int64(place.Sequence.Stream), At: place.Timestamp, Exact: true,
			ID: m.Headers().Get(headerID), Topic: m.Subject(), Key: m.Headers().Get(headerKey), Body: body(m.Data()),
			Failure: m.Headers().Get(headerFailed),
		})
	}
	return all, nil
}

func (s *natsStream) Close(ctx context.Context) {
	_ = s.js.DeleteStream(ctx, s.name) // the server may be gone
	s.conn.Close()
}
