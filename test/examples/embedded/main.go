// The shop relays its own outbox to NATS JetStream.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/outboxwriter"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/relay"
	"github.com/outbox-relay/outbox-relay/sql"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	to, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	check(err)
	broker, err := nats.New(nats.Config{Servers: []string{os.Getenv("NATS_URL")}})
	check(err)
	config := relay.Config{Destinations: []*relay.Destination{{Publisher: broker}}}
	pool, closePool, err := config.NewPool(ctx, to)
	check(err)
	defer closePool()

	// Once: put this text among your migrations.
	_, err = pool.Exec(ctx, sql.Schema(sql.Table{Name: "outbox_messages"}))
	check(err)

	r, err := relay.New(pool, config)
	check(err)
	defer r.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- r.Run(ctx) }()
	check(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// Change the shop's own tables here, in the same transaction.
		return outboxwriter.Insert(ctx, outboxwriter.Pgx(tx), outboxwriter.Message{
			Topic: "orders.placed", Key: "ada", Payload: []byte(`{"cents": 4200}`),
		})
	}))
	check(<-stopped) // a clean stop: nothing is published twice
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
