// Command outbox-relay publishes the rows of an outbox table in PostgreSQL to Kafka, NATS JetStream
// or RabbitMQ.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/outbox-relay/outbox-relay/cli"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		stop()
		// A second signal does not wait for the clean stop. As the first process of a container the
		// relay must exit by itself: the kernel would not end it by a signal that it does not handle.
		<-signals
		os.Exit(1)
	}()
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
