// Package route says where the rows of an outbox go: which destination takes which rows, and which topic, exchange, time and payload their
// messages have there.
package route

import "github.com/outbox-relay/outbox-relay/internal/outbox"

// A Route is what of a destination decides which rows it takes and where they go. Its publisher is no part of it.
type Route struct {
	Name string
	// Topics are patterns of the rows' topics, see [pattern.Takes]; none takes every row.
	Topics []string
	// Columns keep the destination's state, as in [outbox.View].
	Columns map[string]string
	// FailedOf and RelayedOf name another destination, whose failed or relayed rows this one takes. At most one of them is set.
	FailedOf, RelayedOf string
	BlockFailed         bool // a row that failed blocks its key
	Expires             bool // rows may become too old
	Rest                bool // takes the rows that no other destination takes

	Topic       Template  // of the topic on the broker
	Exchange    *Template // of the AMQP exchange; nil leaves it to the publisher
	Time        *Time     // of the message; nil leaves it to the publisher
	Encoding    Encoding  // of the payload
	DedupPrefix string    // in place of the database's identity in dedup ids, if not empty
}

// Address writes into a row's message where it goes on the broker.
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
