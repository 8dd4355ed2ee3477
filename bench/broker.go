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
	close()
}

// partitions is how many the Kafka topic has.
const partitions = 6

// variables name the brokers and the variable with the address of each.
var variables = []struct{ name, variable string }{
	{"kafka", "TEST_KAFKA_URL"}, {"nats", "TEST_NATS_URL"}, {"rabbitmq", "TEST_AMQP_URL"},
}

func openBroker(name, address string) (broker, error) {
	switch name {
	case "kafka":
		return newKafka(address), nil
	case "nats":
		return newNATS(address)
	default:
		return newRabbit(address)
	}
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

func withSearchPath(address, schema string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("TEST_DATABASE_URL is no URL")
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
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
