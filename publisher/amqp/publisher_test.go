package amqp_test

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	t.Run("default exchange, quorum queues", func(t *testing.T) {
		t.Parallel()
		publishertest.Run(t, newHarness(t, "", amqp091.QueueTypeQuorum))
	})
	t.Run("topic exchange, classic queues", func(t *testing.T) {
		t.Parallel()
		publishertest.Run(t, newHarness(t, amqp091.ExchangeTopic, amqp091.QueueTypeClassic))
	})
}
