package amqp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// shown returns the findings as one text each: severity, check, subject and what was found.
func shown(findings []finding.Finding) string {
	var all []string
	for _, f := range findings {
		all = append(all, fmt.Sprint(f.Severity, " ", f.Check, " ", f.Subject, ": ", f.Found))
		if (f.Severity == finding.OK) != (f.Remedy == "") {
			all = append(all, "wrong remedy: "+f.Remedy)
		}
	}
	return strings.Join(all, "\n")
}

func TestExamine(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeQuorum)
	topic := h.Topic(t)
	p := h.open(t, nil)
	defer p.Close()
	text := shown(p.Examine(within(t, 20*time.Second),
		publishertest.Addresses(topic, "no-such-queue", strings.Repeat("x", 256))))
	for _, part := range []string{
		"ok reach", "warning authentication", "without TLS", "ok version", ": RabbitMQ ", "ok alarms",
		`ok topic "` + topic + `": the queue exists, with 0 messages`, `ok permission "` + topic,
		`error topic "no-such-queue": Exception (404)`,
		`the routing key has 256 bytes`, "warning management",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the findings lack %q:\n%s", part, text)
		}
	}
	if strings.Contains(text, "wrong remedy") {
		t.Error(text)
	}
	// The examination has published nothing, and the connection works as before.
	want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0], publisher.Accepted)
	if got := h.Received(t, topic, 1); len(got) != 1 {
		t.Errorf("the queue held %d messages, want only ours", len(got))
	}
}

func TestExamineExchange(t *testing.T) {
	t.Parallel()
	h := newHarness(t, amqp091.ExchangeTopic, amqp091.QueueTypeClassic)
	for _, test := range []struct {
		config amqp.Config
		part   string
	}{
		{amqp.Config{Exchange: h.exchange}, "ok exchange " + h.exchange + ": exists"},
		{amqp.Config{Exchange: h.exchange}, `ok permission "some.key"`},
		{amqp.Config{Exchange: "no-such-exchange"}, `error exchange no-such-exchange: the exchange "no-such-exchange" does not exist`},
	} {
		test.config.URL = func() (string, error) { return h.url, nil }
		p := amqp.New(test.config)
		defer p.Close()
		if text := shown(p.Examine(within(t, 20*time.Second), publishertest.Addresses("some.key"))); !strings.Contains(text,
			test.part) ||
			strings.Contains(text, "wrong remedy") {
			t.Errorf("the findings lack %q:\n%s", test.part, text)
		}
	}
	p := h.open(t, nil)
	defer p.Close()
	says(t, shown(p.Examine(within(t, 20*time.Second), []publisher.Address{
		{Topic: "a", Exchange: strings.Repeat("x", 256)},
		{Topic: "b", Exchange: "missing"},
		{Topic: "c", Exchange: h.exchange},
		{Topic: "d", Exchange: "amq.direct"},
	})), "256 bytes", `error exchange missing: the exchange "missing" does not exist`, `ok permission "c": `,
		`ok permission "d" on exchange amq.direct: `)
	if text := shown(amqp.New(h.config()).Examine(within(t, 20*time.Second), nil)); !strings.Contains(text,
		"warning management") {
		t.Errorf("without a management interface: %s", text)
	}
	away := amqp.New(amqp.Config{URL: func() (string, error) {
		return "amqp://nobody:wrong@" + hostOf(t, "TEST_AMQP_URL"), nil
	}})
	defer away.Close()
	if text := shown(away.Examine(within(t, 20*time.Second), nil)); !strings.HasPrefix(text, "error authentication ") {
		t.Errorf("with a wrong password: %s", text)
	}
}

// The findings say that a user may not write, although nothing is written.
func (o *ownBroker) readerExamined(t *testing.T) {
	o.user(t, "reader", `"password": "reader"`, "")
	o.allow(t, "reader", "")
	topic := o.harness.Topic(t)
	reader := amqp.New(amqp.Config{URL: func() (string, error) {
		return strings.Replace(o.harness.url, "guest:guest", "reader:reader", 1), nil
	}, Exchange: "amq.topic"})
	defer reader.Close()
	if text := shown(reader.Examine(within(t, 20*time.Second), publishertest.Addresses(topic))); !strings.Contains(text,
		"error permission") {
		t.Errorf("for a user without the right to write:\n%s", text)
	}
}

// The broker reports an alarm only when a client publishes, and answers nothing after that.
func TestExamineAlarm(t *testing.T) {
	t.Parallel()
	f := newFake(t, listen(t), func(m *sent) {
		m.conn.block("low on disk")
		m.conn.deaf.Store(true)
	})
	p := f.open(t, "")
	text := shown(p.Examine(within(t, 20*time.Second), publishertest.Addresses("topic")))
	if !strings.Contains(text, "error alarms") || !strings.Contains(text, "low on disk") ||
		strings.Contains(text, "topic") {
		t.Errorf("with an alarm:\n%s", text)
	}
}
