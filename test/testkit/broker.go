package testkit

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// A Message is a message of a broker, as a consumer receives it.
type Message struct {
	Topic   string // topic, subject or routing key
	ID, Key string
	Keyless bool // reports that the message has no key at all
	Body    []byte
	Null    bool // reports that the message has no body at all: a Kafka tombstone
	// Headers are the headers of the message and what the broker carries as properties, without id and key.
	Headers   map[string]string
	Time      time.Time // time recorded in the message, or by the JetStream stream; zero without either
	Partition int       // messages of one partition are in order
	Offset    int64     // offset from the beginning of the partition, where the broker counts
}

// A Broker is one of the real brokers. A topic is a Kafka topic, a JetStream stream of one subject, or a quorum queue.
// The methods are safe for concurrent use.
type Broker interface {
	// Create makes a topic and returns when it can be written to.
	Create(ctx context.Context, topic Topic) error
	// Remove deletes a topic and what it holds.
	Remove(ctx context.Context, topic string) error
	// Count returns how many messages a topic holds. The count of a quorum queue may be some seconds old.
	Count(ctx context.Context, topic string) (int, error)
	// Consume calls receive with each message from the first one on, as soon as it is available, until ctx ends, which
	// is not an error. Messages of one partition are passed one after the other. A queue's messages are acknowledged as
	// they are sent.
	Consume(ctx context.Context, topic string, receive func(Message)) error
	// Read returns all messages that a topic holds. It empties a queue.
	Read(ctx context.Context, topic string) ([]Message, error)
	// Publish publishes a message with the id, body and partition of m, and waits for the acknowledgement.
	Publish(ctx context.Context, topic string, m Message) error
	// Close closes the connections.
	Close()
}

// A Topic describes the topic that Create makes.
type Topic struct {
	Name       string
	Partitions int // partitions of a Kafka topic; 0 for one
	Replicas   int // replicas of a Kafka topic or a stream; 0 for one
	// ids of the Kafka nodes that have the only replica of each partition; none for the cluster's choice
	Nodes []int
	// largest message in bytes; larger ones are refused. 0 for the broker's own limit. Not for RabbitMQ
	Most    int
	Configs map[string]string // settings of a Kafka topic
	// Duplicates is the window in which a stream drops messages with an id that it has seen; 0 for the shortest
	// possible.
	Duplicates time.Duration
}

// Open makes a client of the broker at an OUTBOX_PUBLISH_URL, kafka:, nats: or amqp:. Only NATS is connected at once.
func Open(address string) (Broker, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the broker's address is not kafka://, nats:// or amqp://host:port")
	}
	switch u.Scheme {
	case "kafka":
		return OpenKafka(strings.Split(u.Host, ",")...), nil
	case "nats":
		return OpenNATS(address)
	case "amqp":
		return OpenRabbitMQ(address), nil
	}
	return nil, fmt.Errorf("unknown broker %s", u.Scheme)
}

// Headers of the plain wire format.
const (
	headerID  = "message-id"
	headerKey = "message-key"
)

// header stores one header of a message in the field to which it belongs.
func (m *Message) header(name, value string) {
	switch name {
	case headerID:
		m.ID = value
	case headerKey:
		m.Key, m.Keyless = value, false
	default:
		m.Headers[name] = value
	}
}
