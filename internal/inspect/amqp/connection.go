// Package amqp is the interface between the publisher for RabbitMQ and the packages that examine the broker through its
// connection.
package amqp

import (
	"context"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
)

// A Connection is a publisher's connection to a broker, lent until Release. Errors say what to change, without secrets.
type Connection struct {
	*amqp091.Connection
	Address  string // host:port
	Exchange string // the configured exchange
	Unrouted bool   // messages need no route

	// CheckExchange returns why no exchange can have the name, nil if one can.
	CheckExchange func(name string) error
	// Ask calls a question that the library would wait for without limit. It waits until ctx ends at the latest.
	Ask func(ctx context.Context, question func(*amqp091.Connection) error) error
	// Blocked returns why the broker blocks publishing, nil if it does not.
	Blocked func() *string
	// Management returns the management interface; the field is nil if none is configured.
	Management func(ctx context.Context) (*rabbitmq.Management, error)
	// Release gives the connection back.
	Release func()
}
