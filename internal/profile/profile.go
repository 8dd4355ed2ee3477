// Package profile gives messages the wire format that consumers expect: OUTBOX_PROFILE.
//
// The format plain is what the publishers write by themselves and needs nothing from here. The others
// write all headers of a message, which then is bare (see [publisher.Message]).
package profile

import (
	"fmt"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Profile turns the message of a row, whose topic is still the row's own, into one of a wire format.
// attempt is the number of the coming try. An error is the permanent answer for the row. The
// message's slices are replaced, never changed.
type Profile func(m *publisher.Message, attempt int64) error

// Names of the profiles.
const (
	Plain        = "plain"
	CloudEvents  = "cloudevents"
	Debezium     = "debezium"
	PhoenixMicro = "phoenix_micro"
)

// A Broker is a kind of broker; each has its own binding of a format.
type Broker string

// The kinds of brokers. Stdout shows messages as Kafka would get them.
const (
	Kafka  Broker = "kafka"
	NATS   Broker = "nats"
	AMQP   Broker = "amqp"
	Stdout Broker = "stdout"
)

// Options are what the profiles need besides the row.
type Options struct {
	Source     string // of cloudevents: a URI reference; empty takes each message's own
	Tombstones bool   // of debezium on Kafka: a NULL payload is a null value, not an empty one
}

// New returns the profile of that name for a kind of broker, nil for plain.
func New(name string, broker Broker, o Options) (Profile, error) {
	switch name {
	case Plain:
		return nil, nil
	case CloudEvents:
		return cloudEvents(broker, o.Source), nil
	case Debezium:
		return debezium(broker, o.Tombstones), nil
	case PhoenixMicro:
		return phoenixMicro(broker), nil
	default:
		return nil, fmt.Errorf("unknown profile %q", name)
	}
}

// reserved is the answer for a row's header that has the name of one that the profile writes.
func reserved(name, profile string) error {
	return publisher.PermanentError("reserved header", "the header name %q is one that profile %s writes: rename it in the row's headers", name, profile)
}
