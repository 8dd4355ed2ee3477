package relay

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Destination is one broker with the rules for the rows that go there. It belongs to one Relay, which fills in the defaults.
type Destination struct {
	// Name is the destination's name in metrics, logs and dead letters. The default is "default"; each of several needs one.
	Name string
	// Publisher publishes the rows. It is required, and it is closed by [Relay.Close].
	Publisher publisher.Publisher
	// Reopen makes another publisher, for after a panic in the last one. By default that stays in use.
	Reopen func() (publisher.Publisher, error)

	// Topics are patterns of the rows' topics, such as order.* and !order.internal.*, in which * is any text. By default every row is taken.
	// Of several destinations that keep their state in the same columns, a row goes to the first that takes it.
	Topics []string
	// Columns are the columns of the table that keep the destination's state, by their usual names (relayed_at, attempt, failed_at,
	// last_error, updated_at), so that the destination gets its own copy of each row that it takes. By default they are the table's.
	Columns map[string]string
	// FailedOf names another destination, whose failed rows this one takes: dead letters. It needs Columns.
	FailedOf string
	// RelayedOf names another destination, whose relayed rows this one takes. It needs Columns.
	RelayedOf string

	// Topic is the template of the topic, subject or routing key on the broker, such as shop.{tenant}.{topic}. The default is {topic}, and
	// outbox.event.{topic} for the wire format debezium.
	Topic string
	// Exchange is the template of the AMQP exchange. By default the publisher decides.
	Exchange string
	// TimeColumn is the column that holds the messages' time. By default the publisher decides.
	TimeColumn string
	// PayloadEncoding is how a payload column of type text carries bytes: base64 or hex. By default the text is sent as it is.
	PayloadEncoding string
	// WireFormat is the format of the messages: plain, cloudevents, debezium or phoenix_micro. The default is plain.
	WireFormat string
	// CloudEventsSource is the attribute source of the wire format cloudevents. By default it names database and table.
	CloudEventsSource string
	// DebeziumTombstones: with the wire format debezium on Kafka, a NULL payload is a null value, not an empty one.
	DebeziumTombstones bool
	// DedupPrefix stands for the database's identity in the messages' dedup ids, for tables whose ids are not uuids.
	DedupPrefix string

	// MaxAttempts is the number of refused publishes after which a row fails. The default is 5.
	MaxAttempts int64
	// BackoffMin and BackoffMax are the first and the longest pause between two attempts. The defaults are 500 ms and a minute.
	BackoffMin, BackoffMax time.Duration
	// PublishTimeout is how long an answer of the broker may take before the outcome is unknown. The default is ten seconds.
	PublishTimeout time.Duration
	// BlockFailed: a row that failed blocks its key until it is retried or discarded. By default the key goes on without the row.
	BlockFailed bool
	// MaxAge is how long after it was due a row fails instead of being published. By default rows do not expire.
	MaxAge time.Duration
	// Rate is how many rows a second all replicas together publish. By default it is not limited.
	Rate float64
	// MaxInFlight and MaxInFlightBytes are the destination's part of the bounds of the same name in Config. By default they are an equal
	// share of what the others leave.
	MaxInFlight      int
	MaxInFlightBytes int64
	// Paused reports whether nothing is to be published at present. It is called every second. By default nothing pauses.
	Paused func() bool

	route      route.Route     // how its messages are made; see [Destination.whole]
	profile    profile.Profile // of the wire format, nil for plain
	rowSpans   trace.Tracer    // of a span for each row whose trace is sampled; nil makes none
	paused     atomic.Bool     // what Paused has said last
	client     client
	complaint  complaint
	duplicated map[string]struct{} // streams whose unexpected duplicates were told; only the dispatch touches it
}

// whole returns the route with everything that decides which rows the destination takes.
func (d *Destination) whole() *route.Route {
	r := d.route
	r.Name, r.Topics, r.Columns, r.FailedOf, r.RelayedOf = d.Name, d.Topics, d.Columns, d.FailedOf, d.RelayedOf
	r.BlockFailed, r.Expires, r.Rest, r.DedupPrefix = d.BlockFailed, d.MaxAge > 0, d.Name == nowhereName, d.DedupPrefix
	return &r
}

// plain reports whether a destination takes rows as they are inserted, not for what became of them elsewhere.
func (d *Destination) plain() bool { return d.FailedOf == "" && d.RelayedOf == "" }

// viewsOf returns how the destinations see the table.
func viewsOf(destinations []*Destination) []outbox.View {
	routes := make([]*route.Route, len(destinations))
	for i, d := range destinations {
		routes[i] = d.whole()
	}
	return route.Views(routes)
}

// withNowhere adds nowhere to the destinations if there may be rows that none of them takes.
func withNowhere(destinations []*Destination) []*Destination {
	everything := func(d *Destination) bool { return d.plain() && pattern.SQL("topic", d.Topics) == pattern.Always }
	if len(destinations) == 0 || slices.ContainsFunc(destinations, everything) {
		return destinations
	}
	rest := nowhere()
	plain := slices.DeleteFunc(slices.Clone(destinations), func(d *Destination) bool { return !d.plain() })
	if len(plain) == 0 {
		return destinations
	}
	if !slices.ContainsFunc(plain, func(d *Destination) bool { return d.Columns == nil }) {
		rest.Columns = plain[0].Columns // nobody keeps those of the table up to date
	}
	return append(slices.Clip(destinations), rest)
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
	row.Message.Time = d.route.Time.Of(row)
	if err := d.route.Encoding.Decode(row); err != nil && row.Invalid == nil && d.FailedOf == "" { // a dead letter shows what was wrong with it
		row.Invalid = err
	}
	if d.profile != nil && row.Invalid == nil {
		row.Invalid = d.profile(&row.Message, attempt)
	}
	if err := d.route.Address(row); err != nil && row.Invalid == nil {
		row.Invalid = err
	}
	d.identify(row)
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
