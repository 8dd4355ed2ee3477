package amqp

import (
	"crypto/rand"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/services"
)

// Patterns of topic exchanges match like the broker's own.
func TestMatchTopic(t *testing.T) {
	t.Parallel()
	conn, err := amqp091.Dial(services.Endpoint(t, "TEST_AMQP_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	exchange := "amqp-test-" + rand.Text()
	if err := ch.ExchangeDeclare(exchange, amqp091.ExchangeTopic, false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	patterns := []string{
		"", "*", "#", "a", "a.b", "a.*", "a.#", "*.b", "#.b", "a.*.c", "a.#.c", "#.#", "*.#", "#.*", "*.*", "a.#.b.#",
		"#.a.#", ".", "a.", "a..c", "A",
	}
	queues := map[string]string{} // by pattern
	for _, pattern := range patterns {
		queue, err := ch.QueueDeclare("", false, true, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(queue.Name, pattern, exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		queues[pattern] = queue.Name
	}
	keys := []string{
		"", "a", "b", "a.b", "a.c", "a.b.c", "a.c.c", "a.b.b.c", "b.a", "a.b.a", ".", "a.", ".b", "a..c", "a.x.b.y", "a.b.b",
		"aa", "a.*", "#",
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, amqp091.Publishing{Body: []byte(key)})
		if err != nil || !confirm.Wait() {
			t.Fatalf("publish %q: %v", key, err)
		}
	}
	for pattern, queue := range queues {
		took := map[string]bool{}
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			took[string(d.Body)] = true
		}
		for _, key := range keys {
			if got := matchTopic(pattern, key); got != took[key] {
				t.Errorf("%q matches %q: %v, but the broker says %v", pattern, key, got, took[key])
			}
		}
		t.Logf("%q takes %d of %d", pattern, len(took), len(keys))
	}
}
