package relay

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Destination is one broker with the rules for the rows that go there.
type Destination struct {
	Name      string
	Publisher publisher.Publisher
	// Reopen makes another publisher, for after a panic in the last one. Without it that stays in use.
	Reopen func() (publisher.Publisher, error)
	Topics []string // patterns of the rows' topics, see [pattern.Takes]; none takes every row
	// Columns keep the destination's state, as in [outbox.View].
	Columns map[string]string
	// FailedOf and RelayedOf name another destination, whose failed or relayed rows this one takes. At most one of them is set.
	FailedOf, RelayedOf string

	Topic    Template  // of the topic on the broker
	Exchange *Template // of the AMQP exchange; nil leaves it to the publisher
	Time     *RowTime  // of the message; nil leaves it to the publisher
	Encoding Encoding  // of the payload
	// Profile gives a row's message the wire format of the destination; nil leaves it plain. It sees
	// the row's own topic, and the number of the coming try.
	Profile func(m *publisher.Message, attempt int64) error
	// DedupPrefix, when not empty, stands for the database's identity in the messages' dedup ids.
	DedupPrefix    string
	MaxAttempts    int64 // refused publishes until the row fails
	BackoffMin     time.Duration
	BackoffMax     time.Duration
	PublishTimeout time.Duration
	BlockFailed    bool          // a row that failed blocks its key until it is retried or discarded
	MaxAge         time.Duration // how long after it was due a row fails instead of being published, 0 for never
	Rate           float64       // rows a second, by all replicas together; 0 for any number
	Rows           int           // part of the bound of all on rows in flight, 0 for an equal share of what is left
	Bytes          int64         // the same of bytes
	// RowSpans makes a span for each row whose trace is sampled; nil makes none.
	RowSpans trace.Tracer
	// Paused returns whether nothing is to be published at present. It is asked every second; nil is never.
	Paused func() bool

	paused     atomic.Bool // what it has said last
	client     client
	complaint  complaint
	duplicated map[string]struct{} // streams whose unexpected duplicates were told; only the dispatch touches it
}

// render gives a row's message the form that it has on the broker. What a profile or a template makes of a row is that row's alone:
// a panic makes it invalid.
func (d *Destination) render(row *outbox.Row, attempt int64) {
	defer func() {
		if value := recover(); value != nil {
			row.Invalid = publisher.PermanentError("panic", "the row cannot be made into a message: %w", panics.Caught(value))
		}
	}()
	if d.FailedOf != "" {
		d.shed(row)
	}
	row.Message.Time = d.Time.of(row)
	if err := d.Encoding.decode(row); err != nil && row.Invalid == nil && d.FailedOf == "" { // a dead letter shows what was wrong with it
		row.Invalid = err
	}
	if d.Profile != nil && row.Invalid == nil {
		row.Invalid = d.Profile(&row.Message, attempt)
	}
	if err := d.address(row); err != nil && row.Invalid == nil {
		row.Invalid = err
	}
	d.identify(row)
}

// address writes into a row's message where it goes on the broker.
func (d *Destination) address(row *outbox.Row) error {
	topic, err := d.Topic.render(row)
	if err != nil {
		return err
	}
	if d.Exchange != nil {
		if row.Message.Exchange, err = d.Exchange.render(row); err != nil {
			return err
		}
	}
	row.Message.Topic = topic
	return nil
}

// identify gives a message the dedup id that it has at this destination. Destinations with columns of their own may write the same row into
// one stream, and the name tells its copies apart; of those that divide the rows one alone has it.
func (d *Destination) identify(row *outbox.Row) {
	m := &row.Message
	if d.DedupPrefix != "" {
		if _, rest, found := strings.Cut(m.DedupID, "/"); found { // a uuid has no prefix
			m.DedupID = d.DedupPrefix + "/" + rest
		}
	}
	if d.Columns != nil {
		m.DedupID += "/" + d.Name
	}
	if d.FailedOf != "" { // a row that is retried and fails again is another dead letter
		m.DedupID += "@" + strconv.FormatInt(row.Due.UnixMicro(), 10)
	}
}
