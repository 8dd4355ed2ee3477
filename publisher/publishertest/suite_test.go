package publishertest

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A brokerHarness runs the suite against the broker in memory, over TCP.
type brokerHarness struct {
	broker *Broker
	server *server
}

func TestBrokerPassesTheSuite(t *testing.T) {
	t.Parallel()
	b := NewBroker()
	b.Limit(1 << 20)
	Run(t, &brokerHarness{broker: b, server: serve(t, b)})
}

func (h *brokerHarness) Open(_ *testing.T, network *Network) publisher.Publisher {
	return newBrokerPublisher(h.broker, newWire(network, h.server.listener.Addr().String()))
}

// wholeCalls implements the wholeCalls interface.
func (h *brokerHarness) wholeCalls() {}

func (h *brokerHarness) Topic(*testing.T) string { return "topic-" + newID() }

func (h *brokerHarness) Unknown(*testing.T) string {
	name := "unknown-" + newID()
	h.broker.Remove(name)
	return name
}

func (h *brokerHarness) Create(_ *testing.T, topic string) { h.broker.Create(topic) }

func (h *brokerHarness) Illegal() []string { return []string{"", "a b", "a\nb"} }

func (h *brokerHarness) TooLarge() int { return 1<<20 + 1 }

func (h *brokerHarness) Received(t *testing.T, topic string, n int) []publisher.Message {
	t.Helper()
	h.broker.await(t, "messages in "+topic, n, func() int { return h.broker.holds(topic) })
	received := h.broker.Received(topic)
	for i := range received {
		received[i].Type = received[i].ContentType()
	}
	return received
}

// holds counts the messages of a topic. b.mu is held.
func (b *Broker) holds(topic string) (n int) {
	for i := range b.received {
		if b.received[i].Topic == topic {
			n++
		}
	}
	return n
}
