package amqp_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// tooLarge is above RabbitMQ 3's default max_message_size of 128 MiB.
const tooLarge = 128<<20 + 1

// A harness gives the suite queues on a real RabbitMQ.
type harness struct {
	url      string
	exchange string // "" is the default exchange
	kind     string // kind of queue
	conn     *amqp091.Connection

	mu     sync.Mutex
	queues map[string]*queue
}

func newHarness(t testing.TB, exchangeKind, queueKind string) *harness {
	t.Helper()
	return harnessAt(t, services.Endpoint(t, "TEST_AMQP_URL"), exchangeKind, queueKind)
}

func harnessAt(t testing.TB, url, exchangeKind, queueKind string) *harness {
	t.Helper()
	h := &harness{url: url, kind: queueKind, queues: map[string]*queue{}}
	conn, err := amqp091.Dial(h.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h.conn = conn
	if exchangeKind != "" {
		h.exchange = declareExchange(t, conn, exchangeKind)
	}
	return h
}

func declareExchange(t testing.TB, conn *amqp091.Connection, kind string) string {
	t.Helper()
	name := "amqp-test-" + rand.Text()
	ch := channel(t, conn)
	if err := ch.ExchangeDeclare(name, kind, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.ExchangeDelete(name, false, false) })
	return name
}

func channel(t testing.TB, conn *amqp091.Connection) *amqp091.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func (h *harness) open(t testing.TB, network *publishertest.Network) *amqp.Publisher {
	config := amqp.Config{URL: func() (string, error) { return h.url, nil }, Exchange: h.exchange, Name: t.Name()}
	if network != nil {
		config.Dial = network.Dial
	}
	return amqp.New(config)
}

func (h *harness) Open(t *testing.T, network *publishertest.Network) publisher.Publisher {
	return h.open(t, network)
}

func (h *harness) Topic(t *testing.T) string {
	topic := h.Unknown(t)
	h.create(t, topic, nil)
	return topic
}

func (h *harness) Unknown(*testing.T) string { return "amqp-test-" + rand.Text() }

func (h *harness) Create(t *testing.T, topic string) { h.create(t, topic, nil) }

func (h *harness) create(t testing.TB, topic string, args amqp091.Table) {
	t.Helper()
	if args == nil {
		args = amqp091.Table{}
	}
	args[amqp091.QueueTypeArg] = h.kind
	ch := channel(t, h.conn)
	if _, err := ch.QueueDeclare(topic, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.queues[topic] = &queue{ch: ch, name: topic}
	h.mu.Unlock()
	t.Cleanup(func() {
		_, _ = ch.QueueDelete(topic, false, false, false)
		_ = ch.Close()
	})
	if h.exchange != "" {
		if err := ch.QueueBind(topic, topic, h.exchange, false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *harness) Illegal() []string { return []string{strings.Repeat("x", 256)} }

func (h *harness) TooLarge() int { return tooLarge }

func (h *harness) Received(t *testing.T, topic string, n int) []publisher.Message {
	t.Helper()
	h.mu.Lock()
	q := h.queues[topic]
	h.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	late := time.After(30 * time.Second)
	next := func() amqp091.Delivery {
		select {
		case d := <-q.deliveries(t):
			return d
		case <-late:
			t.Fatalf("topic %s holds %d messages after half a minute, not %d", topic, len(q.received), n)
			return amqp091.Delivery{}
		}
	}
	for len(q.received) < n {
		q.received = append(q.received, message(t, next()))
	}
	// The queue's content is everything before a message sent here as a mark.
	mark := rand.Text()
	if err := q.ch.Publish("", topic, false, false, amqp091.Publishing{MessageId: mark}); err != nil {
		t.Fatal(err)
	}
	for d := next(); d.MessageId != mark; d = next() {
		q.received = append(q.received, message(t, d))
	}
	return slices.Clone(q.received)
}

// A queue collects what arrives in a topic's queue.
type queue struct {
	ch   *amqp091.Channel
	name string

	mu       sync.Mutex
	arriving <-chan amqp091.Delivery
	received []publisher.Message
}

func (q *queue) deliveries(t *testing.T) <-chan amqp091.Delivery {
	if q.arriving == nil {
		arriving, err := q.ch.Consume(q.name, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.arriving = arriving
	}
	return q.arriving
}

// message converts a delivery to the message from which it was published.
func message(t *testing.T, d amqp091.Delivery) publisher.Message {
	t.Helper()
	if d.DeliveryMode != amqp091.Persistent {
		t.Errorf("message %s is not persistent", d.MessageId)
	}
	m := publisher.Message{
		ID: d.MessageId, Topic: d.RoutingKey, Payload: d.Body, Type: d.ContentType,
		Inserted: d.Timestamp,
	}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	for name, value := range d.Headers {
		if name == "x-delivery-count" {
			continue // the quorum queue's own header
		}
		if name == publisher.HeaderMessageKey {
			m.Key = []byte(value.(string))
		}
		m.Headers = append(m.Headers, publisher.Header{Name: name, Value: value.(string)})
	}
	return m
}
