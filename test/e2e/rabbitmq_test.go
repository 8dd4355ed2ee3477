package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

type rabbitBroker struct {
	address string

	mu    sync.Mutex
	taken map[string][]delivery // by queue
}

func newRabbit(_ testing.TB, url string) *rabbitBroker {
	return &rabbitBroker{address: url, taken: map[string][]delivery{}}
}

func (*rabbitBroker) name() string  { return "rabbitmq" }
func (b *rabbitBroker) url() string { return b.address }

// channel opens a connection of its own, because brokers are stopped under it.
func (b *rabbitBroker) channel(t testing.TB) (channel *amqp091.Channel, closeAll func()) {
	t.Helper()
	conn, err := amqp091.Dial(b.address)
	if err != nil {
		t.Fatalf("connect to RabbitMQ: %v", err)
	}
	channel, err = conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel, func() { _ = conn.Close() }
}

func (b *rabbitBroker) topic(t testing.TB) string {
	t.Helper()
	name := uniqueTopic()
	b.create(t, name)
	return name
}

func (b *rabbitBroker) create(t testing.TB, topic string) {
	t.Helper()
	channel, done := b.channel(t)
	defer done()
	_, err := channel.QueueDeclare(topic, true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum})
	if err != nil {
		t.Fatalf("declare queue %s: %v", topic, err)
	}
	t.Cleanup(func() {
		conn, err := amqp091.Dial(b.address)
		if err != nil {
			return // the broker is gone
		}
		defer conn.Close()
		if channel, err := conn.Channel(); err == nil {
			_, _ = channel.QueueDelete(topic, false, false, false)
		}
	})
}

func (b *rabbitBroker) try(t testing.TB, topic string) error {
	ctx, cancel := context.WithTimeout(t.Context(), tryTime)
	defer cancel()
	conn, err := amqp091.Dial(b.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	confirm, err := channel.PublishWithDeferredConfirm("", topic, true, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent})
	if err != nil {
		return err
	}
	if taken, err := confirm.WaitContext(ctx); err != nil || !taken {
		return errors.Join(err, errors.New("not confirmed"))
	}
	return nil
}

// received empties the queue, up to a marker that it puts at the end, because the count of messages that a
// quorum queue tells may be old. What was taken before comes first.
func (b *rabbitBroker) received(t testing.TB, topic string) []delivery {
	t.Helper()
	channel, done := b.channel(t)
	defer done()
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	marker := fmt.Sprint("marker", time.Now().UnixNano())
	confirm, err := channel.PublishWithDeferredConfirm("", topic, true, false, amqp091.Publishing{MessageId: marker, Type: "marker"})
	if err != nil {
		t.Fatal(err)
	}
	if acked, err := confirm.WaitContext(t.Context()); err != nil || !acked {
		t.Fatalf("publish marker to %s: %v %v", topic, acked, err)
	}
	messages, err := channel.ConsumeWithContext(t.Context(), topic, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.taken[topic]
	for {
		select {
		case m, open := <-messages:
			switch {
			case !open:
				t.Fatalf("consuming %s was cut off", topic)
			case m.MessageId == marker:
				b.taken[topic] = all
				return all
			default:
				all = append(all, rabbitDelivery(m))
			}
		case <-time.After(patience):
			t.Fatalf("queue %s: the marker does not come", topic)
		}
	}
}

func rabbitDelivery(m amqp091.Delivery) delivery {
	d := delivery{topic: m.RoutingKey, id: m.MessageId, body: string(m.Body), timestamp: m.Timestamp, headers: map[string]string{},
		keyless: true}
	for name, value := range m.Headers {
		switch name {
		case "message-key":
			d.key, d.keyless = fmt.Sprint(value), false
		case "x-delivery-count", "x-acquired-count": // the broker's own
		default:
			d.headers[name] = fmt.Sprint(value)
		}
	}
	if m.ContentType != "" {
		d.headers["content-type"] = m.ContentType
	}
	if m.CorrelationId != "" {
		d.headers["correlation_id"] = m.CorrelationId
	}
	return d
}

// TestMissingExchange holds one row whose exchange does not exist, alone among 300 good ones.
func TestMissingExchange(t *testing.T) {
	t.Parallel()
	b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	topic, missing, outbox := b.topic(t), uniqueTopic(), newTable(t)
	outbox.Exec(t, "alter table outbox_messages add column exchange text not null default ''")
	outbox.insert(topic, 0, 50, 300)
	outbox.Exec(t, "insert into outbox_messages (topic, key, payload, exchange) values ($1, 'bad', '{}', $2)", topic, missing)
	outbox.insert(topic, 50, 250, 300)
	r := startRelay(t, outbox.env(b.url(), "OUTBOX_AMQP_EXCHANGE={exchange}"))
	outbox.awaitRelayed(300)
	await(t, "the log names the missing exchange", func() bool { return strings.Contains(r.logged(), missing) })
	if pending := outbox.count(isPending + " and attempt = 1 and last_error is null"); pending != 1 {
		t.Errorf("%d rows wait untouched, want the one", pending)
	}
	outbox.Exec(t, "update outbox_messages set exchange = '' where exchange <> ''")
	outbox.awaitDrained()
	check(t, outbox, b.received(t, topic))
}
