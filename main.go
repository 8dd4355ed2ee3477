// Command outbox-relay publishes the rows of an outbox table in PostgreSQL to Kafka, NATS JetStream
// or RabbitMQ.
package main

import "github.com/outbox-relay/outbox-relay/cli"

func main() { cli.Main() }
