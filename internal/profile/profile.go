// Package profile gives messages the wire format that consumers expect.
// The publishers write the format plain by themselves, without this package. The other formats write all headers of a
// message, which is then bare (see [publisher.Message]).
package profile

import (
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Profile turns the message of a row, with the row's own topic, into a message of a wire format. attempt is the
// number of the next attempt. An error is the permanent answer for the row. The message's slices are replaced, never
// changed.
type Profile func(m *publisher.Message, attempt int64) error

// Names of the profiles.
const (
	Plain        = "plain"
	CloudEvents  = "cloudevents"
	Debezium     = "debezium"
	PhoenixMicro = "phoenix_micro"
)

// Topic returns a profile's default template of the topic.
func Topic(name string) string {
	if name == Debezium {
		return "outbox.event.{topic}"
	}
	return "{topic}"
}

// Exchange returns a profile's default AMQP exchange, empty for the default exchange.
func Exchange(name string, to publisher.Protocol) string {
	if name == PhoenixMicro && to == publisher.ProtocolAMQP {
		return "phoenix_micro"
	}
	return ""
}

// Columns returns the columns that a profile uses, if the table has them, by the relay's names: the names in Debezium's
// outbox layout.
func Columns(name string) map[string]string {
	if name == Debezium {
		return map[string]string{"topic": "aggregatetype", "key": "aggregateid"}
	}
	return nil
}

// Options are the inputs of the profiles besides the row.
type Options struct {
	Source     string // for cloudevents: a URI reference; empty takes each message's own
	Tombstones bool   // for debezium on Kafka: a NULL payload becomes a null value, not an empty one
}

// New returns the profile of a name for a protocol, nil for plain. Without a protocol the profile is the same as for
// Kafka.
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
		return nil, fmt.Errorf("unknown wire format %q: use %s, %s, %s or %s", name, Plain, CloudEvents, Debezium,
			PhoenixMicro)
	}
}

// prepend puts headers that a profile writes before the row's own, which must have other names.
func prepend(m *publisher.Message, profile string, written ...publisher.Header) error {
	for _, h := range m.Headers {
		for _, w := range written {
			if strings.EqualFold(h.Name, w.Name) {
				return reserved(h.Name, profile)
			}
		}
	}
	m.Headers = append(append(make([]publisher.Header, 0, len(written)+len(m.Headers)), written...), m.Headers...)
	return nil
}

// reserved is the answer for a row's header with the name of a header that the profile writes.
func reserved(name, profile string) error {
	return publisher.PermanentError("reserved header", "the header name %q is one that profile %s writes: rename it "+
		"in the row's headers",
		name, profile)
}
