package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// broker is one of the real brokers, with what programs and reports need to know about it.
type broker struct {
	testkit.Broker
	name, url string
	pid       int // process of the broker; 0 when it cannot be seen
}

// create makes the topic, stream or queue, ready to be written to.
func (b broker) create(ctx context.Context, topic string) error {
	return b.Create(ctx, testkit.Topic{Name: topic, Partitions: partitions, Duplicates: 2 * time.Minute})
}

// consume calls receive with the body of every message from the first one on, as soon as it is available, until ctx
// ends. Messages of one key are passed one after the other.
func (b broker) consume(ctx context.Context, topic string, receive func([]byte)) error {
	return b.Consume(ctx, topic, func(m testkit.Message) { receive(m.Body) })
}

// publish publishes one message and waits for the acknowledgement.
func (b broker) publish(ctx context.Context, topic string, body []byte) error {
	return b.Publish(ctx, topic, testkit.Message{Body: body})
}

// partitions is the number of partitions of the Kafka topic.
const partitions = 6

// kind is a kind of broker.
type kind struct {
	name     string // name of the kind, and of its service in dev/services.sh
	variable string // environment variable with its address
}

var kinds = []kind{{"kafka", "TEST_KAFKA_URL"}, {"nats", "TEST_NATS_URL"}, {"rabbitmq", "TEST_AMQP_URL"}}

// on calls do with the broker at an address.
func on(name, address string, do func(broker) error) error {
	b, err := open(name, address)
	if err != nil {
		return err
	}
	defer b.Close()
	return do(b)
}

func open(name, address string) (b broker, err error) {
	b.name, b.url = name, address
	port, err := portOf(b.url)
	if err != nil {
		return b, err
	}
	b.pid = listenerOn(port)
	b.Broker, err = testkit.Open(address)
	return b, err
}

// topic makes a new topic with a unique name.
func (b broker) topic(ctx context.Context) (topic string, remove func() error, err error) {
	topic = fmt.Sprint("bench-", time.Now().UnixNano())
	if err := b.create(ctx, topic); err != nil {
		return "", nil, fmt.Errorf("create %s: %w", topic, err)
	}
	return topic, func() error {
		if err := b.Remove(context.WithoutCancel(ctx), topic); err != nil {
			return fmt.Errorf("remove %s: %w", topic, err)
		}
		return nil
	}, nil
}

// portOf returns the port of a URL.
func portOf(address string) (int, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, fmt.Errorf("an address is not a URL")
	}
	_, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return 0, fmt.Errorf("the address %s has no port", u.Host)
	}
	return strconv.Atoi(port)
}
