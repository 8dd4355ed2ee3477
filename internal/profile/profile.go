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

// Topic returns the template of the topic that a profile has unless another one is given.
func Topic(name string) string {
	if name == Debezium {
		return "outbox.event.{topic}"
	}
	return "{topic}"
}

// Exchange returns the AMQP exchange that a profile has unless another one is given, empty for the default exchange.
func Exchange(name string, to publisher.Protocol) string {
	if name == PhoenixMicro && to == publisher.ProtocolAMQP {
		return "phoenix_micro"
	}
	return ""
}

// Columns returns the columns that a profile takes for ours where the table has them: the names in Debezium's outbox layout.
func Columns(name string) map[string]string {
	if name == Debezium {
		return map[string]string{"topic": "aggregatetype", "key": "aggregateid"}
	}
	return nil
}

// Options are what the profiles need besides the row.
type Options struct {
	Source     string // of cloudevents: a URI reference; empty takes each message's own
	Tombstones bool   // of debezium on Kafka: a NULL payload is a null value, not an empty one
}

// New returns the profile of that name for a protocol, nil for plain. Of none it is as for Kafka.
func New(name string, to publisher.Protocol, o Options) (Profile, error) {
	switch name {
	case Plain, "":
		return nil, nil
	case CloudEvents:
		return cloudEvents(to, o.Source), nil
	case Debezium:
		return debezium(to, o.Tombstones), nil
	case PhoenixMicro:
		return phoenixMicro(to), nil
	default:
		return nil, fmt.Errorf("unknown wire format %q: use %s, %s, %s or %s", name, Plain, CloudEvents, Debezium, PhoenixMicro)
	}
}

// reserved is the answer for a row's header that has the name of one that the profile writes.
func reserved(name, profile string) error {
	return publisher.PermanentError("reserved header", "the header name %q is one that profile %s writes: rename it in the row's headers",
		name, profile)
}
