package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/kafka"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/relay"
	"github.com/outbox-relay/outbox-relay/sql"
)

// printer is a broker for the examples: it prints what it is given.
type printer struct{}

func (printer) Publish(_ context.Context, messages []publisher.Message) []error {
	for _, m := range messages {
		fmt.Println(m.Topic, string(m.Key), string(m.Payload))
	}
	return make([]error, len(messages)) // nil for each: accepted
}

func (printer) Ping(context.Context) error { return nil }
func (printer) Close() error               { return nil }

// outbox makes a schema with an outbox for one example, and a pool that leads to it.
func outbox(schema string, statements ...string) (pool *pgxpool.Pool, drop func()) {
	admin := os.Getenv("TEST_DATABASE_URL")
	if admin == "" {
		log.Fatal("TEST_DATABASE_URL is not set: run `make test`, or start the services and `eval \"$(dev/services.sh env)\"`")
	}
	execute := func(statements ...string) {
		conn, err := pgx.Connect(context.Background(), admin)
		if err != nil {
			log.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, s := range statements {
			if _, err := conn.Exec(context.Background(), s); err != nil {
				log.Fatal(err)
			}
		}
	}
	away := "drop schema if exists " + schema + " cascade"
	execute(append([]string{
		away, "create schema " + schema, "set search_path to " + schema,
		sql.Schema(sql.Table{Name: "outbox_messages"}),
	},
		statements...)...)
	separator := "?"
	if strings.Contains(admin, "?") {
		separator = "&"
	}
	pool, err := pgxpool.New(context.Background(), admin+separator+"search_path="+schema)
	if err != nil {
		log.Fatal(err)
	}
	return pool, func() {
		pool.Close()
		execute(away)
	}
}

// relayAll is what the package's documentation shows.
func relayAll(ctx context.Context, pool *pgxpool.Pool, broker publisher.Publisher) error {
	r, err := relay.New(pool, relay.Config{
		Destinations: []*relay.Destination{{Publisher: broker}},
	})
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Run(ctx) // until ctx ends
}

func Example() {
	pool, drop := outbox("example",
		"insert into outbox_messages (topic, key, payload) values ('orders.placed', 'ann', '{}')")
	defer drop()
	ctx, stop := context.WithCancel(context.Background())
	slog.SetLogLoggerLevel(slog.LevelError)
	if err := relayAll(ctx, pool, once{stop: stop}); err != nil {
		log.Fatal(err)
	}
	// Output: orders.placed ann {}
}

// once is a printer that stops the relay when it has printed.
type once struct {
	printer
	stop func()
}

func (o once) Publish(ctx context.Context, messages []publisher.Message) []error {
	defer o.stop()
	return o.printer.Publish(ctx, messages)
}

// A relay needs a pool and a destination. Drain relays what is pending and ends; a service calls Run instead.
func ExampleNew() {
	pool, drop := outbox("example_new", `insert into outbox_messages (topic, key, payload) values
		('orders.placed', 'ann', '{"cents": 4990}'), ('orders.paid', 'ann', '{"cents": 4990}')`)
	defer drop()
	ctx := context.Background()

	r, err := relay.New(pool, relay.Config{
		Destinations: []*relay.Destination{{Publisher: printer{}}},
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// orders.placed ann {"cents": 4990}
	// orders.paid ann {"cents": 4990}
}

// A destination with columns of its own gets its own copy of each row that it takes.
func ExampleDestination() {
	pool, drop := outbox("example_destination", "alter table outbox_messages add audit_relayed_at timestamptz",
		`insert into outbox_messages (topic, key, payload) values ('orders.placed', 'ann', '1'), ('mails.sent', 'bob', '2')`)
	defer drop()
	r, err := relay.New(pool, relay.Config{
		Logger: slog.New(slog.DiscardHandler),
		Destinations: []*relay.Destination{
			{Name: "main", Publisher: quiet{}},
			{
				Name: "audit", Publisher: printer{}, Topics: []string{"orders.*"}, Topic: "audit.{topic}",
				Columns: map[string]string{"relayed_at": "audit_relayed_at"},
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.Drain(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// audit.orders.placed ann 1
}

// quiet accepts everything.
type quiet struct{ printer }

func (quiet) Publish(_ context.Context, messages []publisher.Message) []error {
	return make([]error, len(messages))
}

// NewPool makes a pool whose connections survive firewalls and failovers. Run relays until its context ends, and then
// stops cleanly.
func ExampleConfig_NewPool() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	to, err := pgxpool.ParseConfig("postgres://orders:secret@db-1,db-2:5432/orders")
	if err != nil {
		log.Fatal(err)
	}
	config := relay.Config{Destinations: []*relay.Destination{
		{Publisher: kafka.New(kafka.Config{Brokers: []string{"kafka-1:9092", "kafka-2:9092"}})},
	}}
	pool, closePool, err := config.NewPool(ctx, to)
	if err != nil {
		log.Fatal(err)
	}
	defer closePool()
	r, err := relay.New(pool, config)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.Run(ctx); err != nil {
		log.Print(err) // rows that will be published again
	}
}

// An error names every field that cannot be used.
func ExampleFieldError() {
	broker, err := nats.New(nats.Config{Servers: []string{"nats:4222"}})
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(context.Background(), "postgres://localhost/orders")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	_, err = relay.New(pool, relay.Config{
		BatchSize:    -1,
		Destinations: []*relay.Destination{{Publisher: broker, WireFormat: "avro"}},
	})
	fmt.Println(err)
	if wrong, ok := errors.AsType[*relay.FieldError](err); ok {
		fmt.Println("the first is", wrong.Field)
	}
	// Output:
	// relay.Config.BatchSize must be at least 1
	// relay.Config.Destinations[0].WireFormat is an unknown wire format "avro": use plain, cloudevents, debezium or phoenix_micro
	// the first is BatchSize
}
