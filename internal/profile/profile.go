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

// formats are the profiles, with plain under the empty name, too.
var formats = map[string]struct {
	write    func(publisher.Protocol, Options) Profile // nil for plain
	topic    string                                    // default template of the topic
	exchange string                                    // default exchange on AMQP; empty for the default exchange
	id       string                                    // header with the row's id in a stored message
	// columns that are used, if the table has them, by the relay's names
	columns map[string]string
}{
	"":          {topic: "{topic}", id: publisher.HeaderMessageID},
	Plain:       {topic: "{topic}", id: publisher.HeaderMessageID},
	CloudEvents: {write: cloudEvents, topic: "{topic}", id: "ce_id"},
	// the names in Debezium's outbox layout
	Debezium: {write: debezium, topic: "outbox.event.{topic}", id: "id", columns: map[string]string{
		"topic": "aggregatetype", "key": "aggregateid",
	}},
	PhoenixMicro: {write: phoenixMicro, topic: "{topic}", exchange: "phoenix_micro", id: "x-message-id"},
}

// Topic returns a profile's default template of the topic.
func Topic(name string) string { return formats[name].topic }

// Exchange returns a profile's default AMQP exchange, empty for the default exchange.
func Exchange(name string) string { return formats[name].exchange }

// Columns returns the columns that a profile uses, if the table has them, by the relay's names.
func Columns(name string) map[string]string { return formats[name].columns }

// Options are the inputs of the profiles besides the row.
type Options struct {
	Source     string // for cloudevents: a URI reference; empty takes each message's own
	Tombstones bool   // for debezium on Kafka: a NULL payload becomes a null value, not an empty one
}

// New returns the profile of a name for a protocol, nil for plain. Without a protocol the profile is the same as for
// Kafka.
func New(name string, to publisher.Protocol, o Options) (Profile, error) {
	format, known := formats[name]
	if !known {
		return nil, fmt.Errorf("unknown wire format %q: use %s, %s, %s or %s", name, Plain, CloudEvents, Debezium,
			PhoenixMicro)
	}
	if format.write == nil {
		return nil, nil
	}
	return format.write(to, o), nil
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
