package e2e

import (
	"crypto/rand"
	"strings"
	"testing"
)

// broker is one of the real brokers.
type broker interface {
	name() string
	url() string // for OUTBOX_PUBLISH_URL
	// topic makes a topic, stream or queue that is ready to be written to, and removes it after the test.
	topic(t testing.TB) string
	// create is topic with a chosen name, as uniqueTopic makes them.
	create(t testing.TB, topic string)
	// try publishes a message as a client that connects just now; an error is that the broker does not take it.
	try(t testing.TB, topic string) error
	// received returns all that the topic holds, in the order of its partitions.
	received(t testing.TB, topic string) []delivery
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

// each runs a test for each kind of broker.
func each(t *testing.T, test func(t *testing.T, b broker)) {
	for _, b := range brokers(t) {
		t.Run(b.name(), func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// uniqueTopic returns a name that every broker takes.
func uniqueTopic() string { return "e2e-" + strings.ToLower(rand.Text()) }
