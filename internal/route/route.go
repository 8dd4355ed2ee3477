// Package route says where the rows of an outbox go: which destination takes which rows, and which topic, exchange,
// time and payload their messages have there.
package route

import (
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// A Route is the part of a destination that decides which rows it takes and where they go. It does not include the
// publisher.
type Route struct {
	Name string
	// Topics are patterns of the rows' topics, see [pattern.Takes]; an empty list takes every row.
	Topics []string
	// Columns keep the destination's state, as in [outbox.View].
	Columns map[string]string
	// FailedOf and RelayedOf name another destination, whose failed or relayed rows this one takes. At most one of them
	// is set.
	FailedOf, RelayedOf string
	BlockFailed         bool // a failed row blocks its key
	Optional            bool // best effort: nothing waits for it
	Expires             bool // rows may expire
	// Names are the user's names of the fields of the destination's configuration.
	Names setting.Names

	TopicText    string // template of the topic; empty for the row's own
	ExchangeText string // template of the AMQP exchange; empty leaves it to the publisher
	TimeColumn   string // column with the message's time; empty leaves it to the publisher
	WireFormat   string
	Encoding     Encoding // encoding of the payload
	DedupPrefix  string   // replaces the database's identity in dedup ids, if not empty

	// [Plan] sets what the texts mean. Exchange and Time are nil if the publisher decides.
	Topic    Template
	Exchange *Template
	Time     *Time
}

// Address sets in a row's message where it goes on the broker.
func (r *Route) Address(row *outbox.Row) error {
	topic, err := r.Topic.Text(row)
	if err != nil {
		return err
	}
	if r.Exchange != nil {
		if row.Message.Exchange, err = r.Exchange.Text(row); err != nil {
			return err
		}
	}
	row.Message.Topic = topic
	return nil
}
