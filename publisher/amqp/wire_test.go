package amqp_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// get takes one message out of a queue.
func (h *harness) get(t *testing.T, queue string) amqp091.Delivery {
	t.Helper()
	ch := channel(t, h.conn)
	defer ch.Close()
	var got amqp091.Delivery
	await(t, func() bool {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		got = d
		return ok
	})
	return got
}

func TestPlainProfile(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	p := h.open(t, nil)
	defer p.Close()
	inserted := time.Date(2026, 7, 1, 12, 30, 15, 999_000_000, time.UTC)
	for _, test := range []struct {
		name string
		give publisher.Message
		want amqp091.Delivery
	}{
		{
			name: "everything",
			give: publisher.Message{
				ID: "id-1", Key: []byte("k"), Payload: []byte(`{"a":1}`), Type: "application/json", Inserted: inserted,
				Headers: []publisher.Header{{Name: "Correlation-Id", Value: "c-1"}, {Name: "traceparent", Value: "00-1-2-01"}},
			},
			want: amqp091.Delivery{
				MessageId: "id-1", Body: []byte(`{"a":1}`), ContentType: "application/json",
				CorrelationId: "c-1", Timestamp: inserted.Truncate(time.Second),
				Headers: amqp091.Table{"Correlation-Id": "c-1", "traceparent": "00-1-2-01", "message-key": "k"},
			},
		},
		{
			name: "nothing",
			give: publisher.Message{ID: "id-2"},
			want: amqp091.Delivery{MessageId: "id-2"},
		},
		{
			name: "the row's content type wins and is not repeated",
			give: publisher.Message{
				ID: "id-3", Key: []byte{}, Type: "application/json",
				Headers: []publisher.Header{{Name: "Content-Type", Value: "text/csv"}},
			},
			want: amqp091.Delivery{MessageId: "id-3", ContentType: "text/csv", Headers: amqp091.Table{"message-key": ""}},
		},
		{
			name: "properties from headers",
			give: publisher.Message{ID: "id-5", Headers: []publisher.Header{
				{Name: "Type", Value: "order.placed"},
				{Name: "app-id", Value: "shop"},
				{Name: "priority", Value: "255", JSON: true},
				{Name: "expiration", Value: "4294967295"},
			}},
			want: amqp091.Delivery{
				MessageId: "id-5", Type: "order.placed", AppId: "shop", Priority: 255, Expiration: "4294967295",
				Headers: amqp091.Table{"Type": "order.placed", "app-id": "shop", "priority": "255", "expiration": "4294967295"},
			},
		},
		{
			name: "more properties from headers",
			give: publisher.Message{ID: "id-6", Headers: []publisher.Header{
				{Name: "reply_to", Value: "answers"},
				{Name: "Content-Encoding", Value: "gzip"},
				{Name: "user-id", Value: "guest"},
				{Name: "priority", Value: "null", JSON: true},
				{Name: "user_ids", Value: "x"},
			}},
			want: amqp091.Delivery{
				MessageId: "id-6", ReplyTo: "answers", ContentEncoding: "gzip", UserId: "guest",
				Headers: amqp091.Table{
					"reply_to": "answers", "Content-Encoding": "gzip", "user-id": "guest", "priority": "null",
					"user_ids": "x",
				},
			},
		},
		{
			name: "a time before AMQP's times",
			give: publisher.Message{ID: "id-4", Inserted: time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)},
			want: amqp091.Delivery{MessageId: "id-4"},
		},
	} {
		test.give.Topic = h.Topic(t)
		want(t, test.name, p.Publish(within(t, 10*time.Second), []publisher.Message{test.give})[0], publisher.Accepted)
		d := h.get(t, test.give.Topic)
		show := func(d amqp091.Delivery) string {
			return fmt.Sprintln(d.MessageId, string(d.Body), d.ContentType, d.CorrelationId, d.Timestamp.UTC(), d.Type, d.AppId,
				d.Priority,
				d.Expiration, d.ReplyTo, d.ContentEncoding, d.UserId, d.Headers)
		}
		got, expected := show(d), show(test.want)
		if got != expected || d.DeliveryMode != amqp091.Persistent {
			t.Errorf("%s: got %swant %s", test.name, got, expected)
		}
	}
}

// A message that AMQP cannot carry is refused before it can end the connection. Its good neighbours are accepted.
func TestUnfitMessagesStayOffTheWire(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	topic := h.Topic(t)
	long := strings.Repeat("é", 128)
	unfit := map[string]publisher.Message{
		"routing key":    {Topic: long},
		"exchange":       {Topic: topic, Exchange: long},
		"line break":     {Topic: topic, Exchange: "no such\nexchange"},
		"id":             {ID: long, Topic: topic},
		"content type":   {Topic: topic, Type: long},
		"correlation id": {Topic: topic, Headers: []publisher.Header{{Name: "correlation_id", Value: long}}},
		"header name":    {Topic: topic, Headers: []publisher.Header{{Name: long, Value: "x"}}},
		"header twice":   {Topic: topic, Headers: []publisher.Header{{Name: "a", Value: "x"}, {Name: "a", Value: "y"}}},
		"reserved":       {Topic: topic, Headers: []publisher.Header{{Name: "CC", Value: "x"}}},
		"type":           {Topic: topic, Headers: []publisher.Header{{Name: "type", Value: long}}},
		"app id":         {Topic: topic, Headers: []publisher.Header{{Name: "app_id", Value: long}}},
		"priority":       {Topic: topic, Headers: []publisher.Header{{Name: "priority", Value: "256"}}},
		"no priority":    {Topic: topic, Headers: []publisher.Header{{Name: "priority", Value: "high"}}},
		"direct reply":   {Topic: topic, Headers: []publisher.Header{{Name: "reply-to", Value: "amq.rabbitmq.reply-to"}}},
		"reply to":       {Topic: topic, Headers: []publisher.Header{{Name: "reply_to", Value: long}}},
		"encoding":       {Topic: topic, Headers: []publisher.Header{{Name: "content_encoding", Value: long}}},
		"another user":   {Topic: topic, Headers: []publisher.Header{{Name: "user_id", Value: "Guest"}}},
		"expiration":     {Topic: topic, Headers: []publisher.Header{{Name: "expiration", Value: "4294967296"}}},
		"no expiration":  {Topic: topic, Headers: []publisher.Header{{Name: "expiration", Value: "-1"}}},
		"large headers": {Topic: topic, Headers: []publisher.Header{
			{Name: "a", Value: strings.Repeat("x", 130_000)},
			{Name: "b", Value: long + long + long + long + long},
		}},
		"large key": {Topic: topic, Key: make([]byte, 140_000)},
	}
	for name, bad := range unfit {
		p := h.open(t, nil)
		defer p.Close()
		messages := numbered(41, 0, topic)
		messages[20] = bad
		for i, err := range p.Publish(within(t, 10*time.Second), messages) {
			if i == 20 {
				want(t, name, err, publisher.Permanent)
			} else {
				want(t, "a neighbour of "+name, err, publisher.Accepted)
			}
		}
	}
}

// The content header may fill a frame to the last byte.
func TestHeadersUpToTheFrame(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	topic := h.Topic(t)
	p := h.open(t, nil)
	defer p.Close()
	edge := 0
	for size := 131_072; edge == 0; size-- {
		m := publisher.Message{
			ID: "id", Topic: topic, Type: "text/plain", Inserted: time.Unix(1, 0),
			Headers: []publisher.Header{{Name: "correlation-id", Value: "c"}, {Name: "a", Value: strings.Repeat("x", size)}},
		}
		switch err := p.Publish(within(t, 10*time.Second), []publisher.Message{m})[0]; publisher.ClassOf(err) {
		case publisher.Permanent:
		case publisher.Accepted:
			edge = size
		default:
			t.Fatalf("a header of %d bytes: %v", size, err)
		}
	}
	d := h.get(t, topic)
	if len(d.Headers["a"].(string)) != edge {
		t.Errorf("the header arrived with %d bytes, want %d", len(d.Headers["a"].(string)), edge)
	}
	// 131,072 minus the size of the frame, the other properties and the other header. The routing key goes in another
	// frame but is counted.
	if least := 131_072 - 150; edge < least {
		t.Errorf("headers are refused above %d bytes, want at least %d", edge, least)
	}
}

func TestFullQueueIsUnavailable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	full, free := h.Unknown(t), h.Topic(t)
	h.create(t, full, amqp091.Table{
		amqp091.QueueMaxLenArg:   10,
		amqp091.QueueOverflowArg: amqp091.QueueOverflowRejectPublish,
	})
	p := h.open(t, nil)
	defer p.Close()
	messages := append(numbered(100, 0, full), numbered(100, 0, free)...)
	accepted := 0
	for i, err := range p.Publish(within(t, 10*time.Second), messages) {
		switch {
		case i >= 100:
			want(t, "a message to the other queue", err, publisher.Accepted)
		case err == nil:
			accepted++
		default:
			want(t, "a message to the full queue", err, publisher.Unavailable)
			if publisher.ScopeOf(err) != publisher.ScopeTopic {
				t.Errorf("the answer reaches %v, want the topic", publisher.ScopeOf(err))
			}
		}
	}
	if held := len(h.Received(t, full, accepted)); held != accepted || accepted == 100 {
		t.Errorf("the full queue holds %d messages, %d were accepted", held, accepted)
	}
}

func TestMissingExchange(t *testing.T) {
	t.Parallel()
	h := newHarness(t, amqp091.ExchangeTopic, amqp091.QueueTypeClassic)
	topic := h.Topic(t)
	ch := channel(t, h.conn)
	p := h.open(t, nil)
	defer p.Close()
	messages := numbered(50, 0, topic)
	publish := func(class publisher.Class) {
		t.Helper()
		for i, err := range p.Publish(within(t, 10*time.Second), messages) {
			want(t, fmt.Sprint("message ", i), err, class)
			if class == publisher.Topology && publisher.ScopeOf(err) != publisher.ScopeDestination {
				t.Errorf("the answer reaches %v, want the destination", publisher.ScopeOf(err))
			}
		}
	}
	publish(publisher.Accepted)
	if err := ch.ExchangeDelete(h.exchange, false, false); err != nil {
		t.Fatal(err)
	}
	// The connection has seen the exchange, and the closed channel shows that it is gone.
	for i, err := range p.Publish(within(t, 10*time.Second), messages) {
		if class := publisher.ClassOf(err); class != publisher.Topology && class != publisher.Ambiguous {
			t.Errorf("message %d is %v: %v", i, class, err)
		}
	}
	publish(publisher.Topology)
	if err := p.Ping(within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), h.exchange) {
		t.Errorf("ping says %v, want the missing exchange", err)
	}
	if err := ch.ExchangeDeclare(h.exchange, amqp091.ExchangeTopic, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(topic, topic, h.exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	publish(publisher.Accepted)
	if err := p.Ping(within(t, 10*time.Second)); err != nil {
		t.Errorf("ping: %v", err)
	}
}

// If rows count as relayed without a route, messages that no queue takes are accepted and lost. The log says so at the
// start.
func TestUnrouted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeClassic)
	var log logtest.Log
	p := amqp.New(amqp.Config{
		URL: func() (string, error) { return h.url, nil }, Unrouted: true,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	defer p.Close()
	if !strings.Contains(log.String(), "Unrouted") {
		t.Errorf("the log says %q", log.String())
	}
	messages := numbered(2, 0, h.Topic(t))
	messages[1].Topic = h.Unknown(t)
	for _, err := range p.Publish(within(t, 10*time.Second), messages) {
		want(t, "a message", err, publisher.Accepted)
	}
	if got := h.Received(t, messages[0].Topic, 1); len(got) != 1 {
		t.Errorf("the queue holds %d messages", len(got))
	}
	if text := shown(p.Examine(within(t, 20*time.Second),
		publishertest.Addresses(messages[1].Topic))); !strings.Contains(text,
		"error topic") ||
		!strings.Contains(text, "Unrouted: rows that no queue takes count as relayed, and are lost") {
		t.Errorf("the findings are\n%s", text)
	}
}

// Headers that concern the message at another destination are not carried by a dead letter.
func TestCheckHeader(t *testing.T) {
	t.Parallel()
	p := amqp.New(amqp.Config{URL: func() (string, error) { return "", nil }})
	for name, carried := range map[string]bool{
		"a": true, "reply_to": true, "user_id": false, "User-ID": false,
		strings.Repeat("x", 256): false,
	} {
		if err := p.CheckHeader(&publisher.Header{Name: name, Value: "x"}); (err == nil) != carried {
			t.Errorf("%.20s: %v", name, err)
		}
	}
}
