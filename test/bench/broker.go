package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"
)

// broker is one of the real brokers.
type broker interface {
	// create makes the topic, stream or queue anew, ready to be written to.
	create(ctx context.Context, topic string) error
	remove(ctx context.Context, topic string) error
	// count returns how many messages have arrived.
	count(ctx context.Context, topic string) (int, error)
	// consume calls receive with the body of every message from the first on, each as soon as it is there,
	// until ctx ends. Those of one key come one after the other.
	consume(ctx context.Context, topic string, receive func([]byte)) error
	// publish publishes one message and waits for the acknowledgement.
	publish(ctx context.Context, topic string, body []byte) error
	close()
}

// namedBroker is a broker with what programs and reports need to know of it.
type namedBroker struct {
	broker
	name, url string
	pid       int // 0 when it cannot be seen
}

// partitions is how many the Kafka topic has.
const partitions = 6

// kind is a kind of broker.
type kind struct {
	name     string // of its service in dev/services.sh too
	variable string // with its address
}

var kinds = []kind{{"kafka", "TEST_KAFKA_URL"}, {"nats", "TEST_NATS_URL"}, {"rabbitmq", "TEST_AMQP_URL"}}

// on calls do with the broker at an address.
func on(name, address string, do func(namedBroker) error) error {
	b, err := open(name, address)
	if err != nil {
		return err
	}
	defer b.close()
	return do(b)
}

func open(name, address string) (b namedBroker, err error) {
	b.name, b.url = name, address
	port, err := portOf(b.url)
	if err != nil {
		return b, err
	}
	b.pid = listenerOn(port)
	b.broker, err = dial(name, address)
	return b, err
}

func dial(name, address string) (broker, error) {
	switch name {
	case "kafka":
		return newKafka(address), nil
	case "nats":
		return newNATS(address)
	default:
		return newRabbit(address)
	}
}

// topic makes a new topic with a name of its own.
func (b namedBroker) topic(ctx context.Context) (topic string, remove func() error, err error) {
	topic = fmt.Sprint("bench-", time.Now().UnixNano())
	if err := b.create(ctx, topic); err != nil {
		return "", nil, fmt.Errorf("create %s: %w", topic, err)
	}
	return topic, func() error {
		if err := b.remove(context.WithoutCancel(ctx), topic); err != nil {
			return fmt.Errorf("remove %s: %w", topic, err)
		}
		return nil
	}, nil
}

// portOf returns the port of a URL.
func portOf(address string) (int, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, fmt.Errorf("an address is no URL")
	}
	_, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return 0, fmt.Errorf("the address %s has no port", u.Host)
	}
	return strconv.Atoi(port)
}

// until polls a condition that has no event to wait for.
func until(ctx context.Context, every time.Duration, condition func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if done, err := condition(); err != nil || done {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
