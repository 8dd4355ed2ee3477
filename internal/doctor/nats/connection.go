package nats

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Connection is a publisher's connection to a server, lent until Release. Errors say what to change, without secrets.
type Connection struct {
	*nats.Conn
	Address string // address of the server: host:port
	API     string // prefix of the subjects at which JetStream answers requests
	Stream  string // the only stream that may take messages; "" for any

	// CheckAddress returns why no message can be sent to the address, nil if one can.
	CheckAddress func(publisher.Address) error
	// Request sends JetStream one request. denied reports that the user may not send it.
	Request func(ctx context.Context, subject string, question []byte) (answer *nats.Msg, denied bool, err error)
	// CheckAccount reads an answer about the account. without reports that the account has no JetStream of its own.
	CheckAccount func(answer *nats.Msg) (without bool, err error)
	// Release gives the connection back.
	Release func()
}
