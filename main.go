// Command outbox-relay publishes the rows of an outbox table in PostgreSQL to Kafka, NATS JetStream
// or RabbitMQ.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/outbox-relay/outbox-relay/cli"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopping()...)
	go obey(signals, stop, os.Stderr, os.Exit)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
