package amqp

import (
	"context"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Connection is a publisher's connection to a broker, lent until Release. Errors say what to change, without secrets.
type Connection struct {
	*amqp091.Connection
	Address  string // host:port
	Exchange string // the configured exchange
	Unrouted bool   // messages need no route

	// CheckAddress returns why no message can have the address, nil if one can.
	CheckAddress func(publisher.Address) error
	// Channels is the number of channels that the broker allows the publisher, if that is fewer than it would use, or
	// else that number. Limit is the broker's reason if it has refused more.
	Channels int
	Limit    string
	// Ask calls a question with a channel for it alone. The library would wait for the answer without limit; Ask waits
	// until ctx ends at the latest.
	Ask func(ctx context.Context, question func(*amqp091.Channel) error) error
	// Blocked returns why the broker blocks publishing, nil if it does not.
	Blocked func() *string
	// Management returns the management interface; the field is nil if none is configured.
	Management func(ctx context.Context) (*rabbitmq.Management, error)
	// Release gives the connection back.
	Release func()
}
