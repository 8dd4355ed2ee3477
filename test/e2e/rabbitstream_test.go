package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const streamPartitions = 3

// stream declares a stream, which is removed after the test.
func (b *rabbitBroker) stream(t testing.TB, name string, limits amqp091.Table) {
	t.Helper()
	channel := b.channel(t)
	arguments := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeStream}
	for name, value := range limits {
		arguments[name] = value
	}
	if _, err := channel.QueueDeclare(name, true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = channel.QueueDelete(name, false, false, false) })
}

// streamed returns the n messages that a stream holds.
func (b *rabbitBroker) streamed(t testing.TB, name string, n int) (all []delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	channel := b.channel(t)
	defer channel.Close()
	const perConsumer, autoAck = false, false // streams support neither
	if err := channel.Qos(100, 0, perConsumer); err != nil {
		t.Fatal(err)
	}
	arriving, err := channel.ConsumeWithContext(ctx, name, "", autoAck, false, false, false,
		amqp091.Table{"x-stream-offset": "first"})
	if err != nil {
		t.Fatal(err)
	}
	for d := range arriving {
		key, keyed := d.Headers["message-key"].(string)
		all = append(all, delivery{topic: d.RoutingKey, id: d.MessageId, key: key, keyless: !keyed, body: string(d.Body)})
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
		if len(all) == n {
			return all
		}
	}
	t.Fatalf("%s holds %d messages, not %d: %v", name, len(all), n, context.Cause(ctx))
	return nil
}

// insertSpread inserts rows of the given number of keys. Each key has a separate topic, which is named by its number.
func (tb *table) insertSpread(t testing.TB, n, keys int) {
	t.Helper()
	tb.Exec(t, `insert into outbox_messages (topic, key, payload)
		select (n % $2 % $3)::text, 'key-' || n % $2, jsonb_build_object('n', n) from generate_series(0, $1::int - 1) n`,
		n, keys, streamPartitions)
}

// TestStreams publishes to a stream as to a queue, and to a super stream, whose exchange routes each routing key to a
// stream. Every row arrives once, in the order of its key. doctor names what bounds a stream.
func TestStreams(t *testing.T) {
	t.Parallel()
	b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	path := filepath.Join(t.TempDir(), "management")
	if err := os.WriteFile(path, []byte(endpoint(t, "TEST_AMQP_MANAGEMENT_URL")), 0o600); err != nil {
		t.Fatal(err)
	}
	management := "OUTBOX_AMQP_MANAGEMENT_URL_FILE=" + path

	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		topic, outbox := uniqueTopic(), newTable(t)
		b.stream(t, topic, nil)
		outbox.insert(topic, 0, 5000, 50)
		env := outbox.env(b.url(), management)
		d := doctor(t, env)
		if d.Errors > 0 || !d.says("ok", "limits", topic, "max-length-bytes", "grows until the disk is full") {
			t.Errorf("of a stream without a limit: %+v", d.Findings)
		}
		if code, _, problems := runCommand(t, env, "drain"); code != 0 {
			t.Fatalf("status %d: %s", code, problems)
		}
		check(t, outbox, b.streamed(t, topic, 5000))
	})

	t.Run("super stream", func(t *testing.T) {
		t.Parallel()
		name, outbox := uniqueTopic(), newTable(t)
		channel := b.channel(t)
		arguments := amqp091.Table{"x-super-stream": true}
		if err := channel.ExchangeDeclare(name, amqp091.ExchangeDirect, true, false, false, false, arguments); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = channel.ExchangeDelete(name, false, false) })
		for i := range streamPartitions {
			partition := fmt.Sprintf("%s-%d", name, i)
			b.stream(t, partition, amqp091.Table{"x-max-age": "7D"})
			order := amqp091.Table{"x-stream-partition-order": i}
			if err := channel.QueueBind(partition, fmt.Sprint(i), name, false, order); err != nil {
				t.Fatal(err)
			}
		}
		const rows, keys = 6000, 60
		outbox.insertSpread(t, rows, keys)
		env := outbox.env(b.url(), management, "OUTBOX_AMQP_EXCHANGE="+name)
		d := doctor(t, env)
		for i := range streamPartitions {
			partition := fmt.Sprintf("%s-%d", name, i)
			if !d.says("ok", "limits", partition, "drops its oldest messages by age or size") {
				t.Errorf("of partition %d: %+v", i, d.Findings)
			}
		}
		if d.Errors > 0 {
			t.Errorf("%+v", d.errors())
		}
		if code, _, problems := runCommand(t, env, "drain"); code != 0 {
			t.Fatalf("status %d: %s", code, problems)
		}
		var all []delivery
		for i := range streamPartitions {
			for _, d := range b.streamed(t, fmt.Sprintf("%s-%d", name, i), rows/streamPartitions) {
				d.partition = i
				all = append(all, d)
			}
		}
		check(t, outbox, all)
	})
}
