package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/outbox-relay/outbox-relay/test/bench/publish/kafka"
	"github.com/outbox-relay/outbox-relay/test/bench/publish/nats"
	"github.com/outbox-relay/outbox-relay/test/bench/publish/rabbitmq"
)

// publishers are functions that measure a publisher alone, by broker, and print a separate table.
var publishers = map[string]func(ctx context.Context, out io.Writer, url string, rows int) error{
	"kafka":    kafka.Run,
	"nats":     nats.Run,
	"rabbitmq": rabbitmq.Run,
}

// publishStudy measures the publishers without database and relay.
func publishStudy(ctx context.Context, l *lab, _ *report) error {
	return l.eachBroker(func(b broker) error {
		if run := publishers[b.name]; run != nil {
			return run(ctx, os.Stdout, b.url, l.rows)
		}
		fmt.Printf("%s: nothing measures its publisher alone\n", b.name)
		return nil
	})
}
