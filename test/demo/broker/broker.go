// Package broker holds the demo's operations on each kind of broker: make a topic, read it, remove it.
package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// A Broker holds one topic, which is called topic, subject or queue.
type Broker interface {
	// Name is the broker's name as people write it.
	Name() string

	// URL is the value of OUTBOX_PUBLISH_URL for the relay.
	URL() string

	// Consume calls arrived with each message, also from several goroutines, and with messages of one key in the order
	// in which the broker holds them. It returns after the mark that End makes, or when ctx ends.
	Consume(ctx context.Context, arrived func(ledger.Arrival)) error

	// End puts a mark after everything that the broker holds.
	End(ctx context.Context) error

	// Close removes the topic and closes the connections.
	Close(ctx context.Context) error
}

// Kinds are the kinds of brokers that Open supports.
var Kinds = []string{"nats", "kafka", "rabbitmq"}

// A Topic describes a topic to be made in a broker.
type Topic struct {
	Name string
	Most int // largest message in bytes, larger ones are refused; 0 for the broker's own limit. Not for RabbitMQ
}

// Open makes a topic in a broker of the given kind. Kafka and RabbitMQ are found by TEST_KAFKA_URL and TEST_AMQP_URL. A
// NATS server is started in this process, with its data in dir.
func Open(ctx context.Context, kind string, topic Topic, dir string, getenv func(string) string) (Broker, error) {
	switch kind {
	case "nats":
		return openNATS(ctx, topic, dir)
	case "kafka":
		url := getenv("TEST_KAFKA_URL")
		address, found := strings.CutPrefix(url, "kafka://")
		if !found {
			return nil, errors.New(
				"TEST_KAFKA_URL is not kafka://host:port: run `make demo BROKER=kafka`, or eval \"$(dev/services.sh " +
					"env)\" first")
		}
		client := testkit.OpenKafka(strings.Split(address, ",")...)
		return openKept(ctx, &kept{Broker: client, name: "Kafka", url: url, ends: partitions}, topic)
	case "rabbitmq":
		url := getenv("TEST_AMQP_URL")
		if url == "" {
			return nil, errors.New(
				"TEST_AMQP_URL is not set: run `make demo BROKER=rabbitmq`, or eval \"$(dev/services.sh env)\" first")
		}
		return openKept(ctx, &kept{Broker: testkit.OpenRabbitMQ(url), name: "RabbitMQ", url: url, ends: 1}, topic)
	}
	return nil, fmt.Errorf("unknown broker %q", kind)
}

// Headers of the relay's plain profile.
const (
	messageID  = "message-id"
	messageKey = "message-key"
	whyFailed  = "outbox-error" // reason in a dead letter
)

// endMark is the message id with which the consumer recognizes that it has read everything. No row has this id.
const endMark = "end"
