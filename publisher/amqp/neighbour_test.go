package amqp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// One message that the broker can only refuse is among 300 good ones. None of the others is refused, held, late or sent
// twice.
func (o *ownBroker) neighbours(t *testing.T) {
	h := o.harness
	internal := "internal-" + h.Unknown(t)
	ch := channel(t, h.conn)
	if err := ch.ExchangeDeclare(internal, amqp091.ExchangeTopic, true, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(m *publisher.Message)
		class publisher.Class
	}{
		{"payload of 2 MiB", func(m *publisher.Message) { m.Payload = make([]byte, 2<<20) }, publisher.Permanent},
		{"missing exchange", func(m *publisher.Message) { m.Exchange = "no-such-exchange" }, publisher.Topology},
		{"exchange with too long a name", func(m *publisher.Message) {
			m.Exchange = string(make([]byte, 256))
		}, publisher.Permanent},
		{"exchange with a line break", func(m *publisher.Message) { m.Exchange = "amq.topic\n" }, publisher.Permanent},
		{"routing key without a queue", func(m *publisher.Message) { m.Topic = "no-such-queue" }, publisher.Topology},
		{"no binding", func(m *publisher.Message) { m.Exchange = "amq.topic" }, publisher.Topology},
	} {
		t.Run(test.name, func(t *testing.T) {
			topic := h.Topic(t)
			p := h.open(t, nil)
			defer p.Close()
			messages := numbered(301, 301, topic)
			test.spoil(&messages[50])
			begun := time.Now()
			for i, err := range p.Publish(within(t, 30*time.Second), messages) {
				if i == 50 {
					want(t, "the bad message", err, test.class)
					if test.class == publisher.Topology && publisher.ScopeOf(err) != publisher.ScopeTopic {
						t.Errorf("the answer reaches %v, want the topic", publisher.ScopeOf(err))
					}
				} else {
					want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
				}
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("the good messages took %v", took)
			}
			if got := h.Received(t, topic, 300); len(got) != 300 {
				t.Errorf("%d messages arrived, want 300", len(got))
			}
		})
	}
	// This error can be neither foreseen nor attributed to one message. The neighbours may be sent twice, but not more
	// often.
	t.Run("internal exchange", func(t *testing.T) {
		topic := h.Topic(t)
		p := h.open(t, nil)
		defer p.Close()
		messages := numbered(301, 301, topic)
		messages[50].Exchange = internal
		for i, err := range p.Publish(within(t, 30*time.Second), messages) {
			if i == 50 {
				want(t, "the bad message", err, publisher.Topology)
				if err == nil || !strings.Contains(err.Error(), "use one that is bound to it") {
					t.Errorf("%v does not say what helps", err)
				}
			} else {
				want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
			}
		}
	})
}
