// Package route says where the rows of an outbox go: which destination takes which rows, and which topic, exchange,
// time and payload their messages have there.
package route

import "github.com/outbox-relay/outbox-relay/internal/outbox"

// A Route is the part of a destination that decides which rows it takes and where they go. It does not include the
// publisher.
type Route struct {
	// View is the table as the destination sees it. [Plan] sets what follows from the other fields and the other
	// routes: Before, FailedOf, RelayedOf, Encoded and Extra.
	outbox.View
	// FailedFrom and RelayedFrom name another destination, whose failed or relayed rows this one takes. At most one of
	// them is set.
	FailedFrom, RelayedFrom string

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
