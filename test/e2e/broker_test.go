package e2e

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// broker is one of the real brokers.
type broker interface {
	name() string
	url() string // value of OUTBOX_PUBLISH_URL
	// topic makes a topic, stream or queue that is ready to be written to, and removes it after the test.
	topic(t testing.TB) string
	// create makes a topic with the given name, which uniqueTopic should make.
	create(t testing.TB, topic string)
	// try publishes a message as a newly connected client. An error means that the broker does not accept it.
	try(t testing.TB, topic string) error
	// received returns all messages that the topic holds, in the order of its partitions.
	received(t testing.TB, topic string) []delivery
}

// common is the part that brokers of every kind have in common.
type common struct {
	testkit.Broker
	kind, address string
	replicas      int // number of replicas of each partition or stream
}

func (s *common) name() string { return s.kind }
func (s *common) url() string  { return s.address }

func (s *common) topic(t testing.TB) string {
	t.Helper()
	name := uniqueTopic()
	s.create(t, name)
	return name
}

func (s *common) create(t testing.TB, topic string) {
	t.Helper()
	s.createAs(t, testkit.Topic{Name: topic})
}

// createAs is create with further properties. JetStream drops almost no duplicates, so that they can be counted.
func (s *common) createAs(t testing.TB, topic testkit.Topic) {
	t.Helper()
	topic.Partitions, topic.Replicas = kafkaPartitions, s.replicas
	if err := s.Create(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Remove(ctx, topic.Name) // the broker may be gone
	})
}

// tryTime is how long a broker that has just started may take to answer a client's message.
const tryTime = time.Second

func (s *common) try(t testing.TB, topic string) error {
	ctx, cancel := context.WithTimeout(t.Context(), tryTime)
	defer cancel()
	b, err := testkit.Open(s.address)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Publish(ctx, topic, testkit.Message{})
}

func (s *common) received(t testing.TB, topic string) []delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	messages, err := s.Read(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]delivery, len(messages))
	for i, m := range messages {
		all[i] = delivery{
			topic: m.Topic, partition: m.Partition, id: m.ID, key: m.Key, keyless: m.Keyless, body: string(m.Body), null: m.Null,
			headers: m.Headers, timestamp: m.Time,
		}
	}
	return all
}

// brokers returns one of each kind, at the addresses of the TEST_ variables.
func brokers(t testing.TB) []broker {
	t.Helper()
	return []broker{
		newKafka(t, endpoint(t, "TEST_KAFKA_URL")),
		newNATS(t, endpoint(t, "TEST_NATS_URL")),
		newRabbit(t, endpoint(t, "TEST_AMQP_URL")),
	}
}

const kafkaPartitions = 6

type kafkaBroker struct {
	common
	client *kafka.Client
}

func newKafka(t testing.TB, url string) *kafkaBroker {
	k := testkit.OpenKafka(strings.Split(strings.TrimPrefix(url, "kafka://"), ",")...)
	t.Cleanup(k.Close)
	return &kafkaBroker{common{Broker: k, kind: "kafka", address: url, replicas: 1}, k.Client}
}

type natsBroker struct {
	common
	js jetstream.JetStream
}

func newNATS(t testing.TB, url string, options ...nats.Option) *natsBroker {
	t.Helper()
	n, err := testkit.OpenNATS(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return &natsBroker{common{Broker: n, kind: "nats", address: url, replicas: 1}, n.JetStream}
}

// rabbitBroker remembers the messages that it has taken from the queues, so that received can return them again.
type rabbitBroker struct {
	common
	rabbit *testkit.RabbitMQ

	mu    sync.Mutex
	taken map[string][]delivery // messages by queue
}

func newRabbit(t testing.TB, url string) *rabbitBroker {
	r := testkit.OpenRabbitMQ(url)
	t.Cleanup(r.Close)
	return &rabbitBroker{
		common: common{Broker: r, kind: "rabbitmq", address: url}, rabbit: r,
		taken: map[string][]delivery{},
	}
}

func (b *rabbitBroker) received(t testing.TB, topic string) []delivery {
	t.Helper()
	got := b.common.received(t, topic)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken[topic] = append(b.taken[topic], got...)
	return b.taken[topic]
}

// channel opens a channel, which the caller closes.
func (b *rabbitBroker) channel(t testing.TB) *amqp091.Channel {
	t.Helper()
	channel, err := b.rabbit.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

// each runs a test for each kind of broker.
func each(t *testing.T, test func(t *testing.T, b broker)) {
	for _, b := range brokers(t) {
		t.Run(b.name(), func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// uniqueTopic returns a unique name that every broker accepts.
func uniqueTopic() string { return "e2e-" + strings.ToLower(rand.Text()) }
