package relay

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// A Destination is a broker with the rules for the rows that go there. It belongs to one Relay, which fills in the
// defaults.
type Destination struct {
	// Name is the destination's name in metrics, logs and dead letters. The default is "default" if there is only one
	// destination; with several, each needs a name.
	Name string
	// Publisher publishes the rows. It is required. [Relay.Close] closes it.
	Publisher publisher.Publisher

	// Topics are patterns of the rows' topics, such as order.* and !order.internal.*, in which * matches any text. By
	// default every row is taken. If several destinations keep their state in the same columns, a row goes to the first
	// that takes it.
	Topics []string `envconfig:"TOPICS" only:"destination"`
	// Columns maps the usual names of the state columns (relayed_at, attempt, failed_at, last_error, updated_at) to
	// columns of the table that keep this destination's state, so that the destination gets its own copy of each row
	// that it takes. By default the table's columns are used.
	Columns map[string]string `envconfig:"COLUMNS" only:"destination"`
	// FailedOf names another destination, whose failed rows this destination takes as dead letters. It needs Columns.
	FailedOf string `envconfig:"FAILED_OF" only:"destination"`
	// RelayedOf names another destination, whose relayed rows this destination takes. It needs Columns.
	RelayedOf string `envconfig:"RELAYED_OF" only:"destination"`

	// Optional makes the destination best effort: [Relay.Ready] and [Relay.Drain] do not wait for it. Its rows are
	// retried all the same.
	Optional bool

	// Topic is the template of the topic, subject or routing key on the broker, such as shop.{tenant}.{topic}. The
	// default is {topic}, and outbox.event.{topic} with the wire format debezium.
	Topic string `envconfig:"TOPIC" default:"{topic}"`
	// Exchange is the template of the AMQP exchange. By default the publisher decides.
	Exchange string
	// TimeColumn is the column with the time of a message. By default the publisher decides.
	TimeColumn string
	// PayloadEncoding is the encoding of bytes in a payload column of type text: base64, hex or none. By default the
	// text is sent as it is.
	PayloadEncoding string `envconfig:"PAYLOAD_ENCODING" default:"none" oneof:"none,base64,hex"`
	// WireFormat is the format of the messages: plain, cloudevents, debezium or phoenix_micro. The default is plain.
	WireFormat string `envconfig:"PROFILE" default:"plain" oneof:"plain,cloudevents,debezium,phoenix_micro"`
	// CloudEventsSource is the attribute source of the wire format cloudevents. By default it names the database and
	// the table.
	CloudEventsSource string `envconfig:"CLOUDEVENTS_SOURCE" with:"PROFILE=cloudevents"`
	// DebeziumTombstones turns a NULL payload into a null value, not an empty one. It applies to the wire format
	// debezium on Kafka.
	DebeziumTombstones bool `envconfig:"DEBEZIUM_TOMBSTONES" default:"false" with:"PROFILE=debezium"`
	// DedupPrefix replaces the database's identity in the messages' dedup ids, for tables whose ids are not UUIDs.
	DedupPrefix string `envconfig:"NATS_MSG_ID_PREFIX" scheme:"nats"`

	// MaxAttempts is the number of refused publishes after which a row fails. The default is 5.
	MaxAttempts int `envconfig:"MAX_ATTEMPTS" default:"5" least:"1" most:"1000000"`
	// BackoffMin is the first pause between two attempts, and BackoffMax the longest. The defaults are 500 ms and one
	// minute.
	BackoffMin time.Duration `envconfig:"BACKOFF_MIN" default:"500ms" least:"1ms"`
	BackoffMax time.Duration `envconfig:"BACKOFF_MAX" default:"60s" least:"1ms"`
	// PublishTimeout is how long the broker's answer may take before the outcome counts as unknown. The default is ten
	// seconds.
	PublishTimeout time.Duration `envconfig:"PUBLISH_TIMEOUT" default:"10s" least:"1ms"`
	// BlockFailed makes a failed row block its key until the row is retried or discarded. By default the key goes on
	// without the row.
	BlockFailed bool `envconfig:"ON_FAILED" default:"continue" oneof:"continue,block"`
	// MaxAge is the time after which a due row fails instead of being published. By default rows do not expire.
	MaxAge time.Duration `envconfig:"MAX_AGE" least:"1ms"`
	// Rate is the largest number of rows per second that all replicas together publish. By default there is no limit.
	Rate float64 `envconfig:"RATE"`
	// MaxInFlight and MaxInFlightBytes are the destination's part of the limits of the same name in Config. By default
	// they are an equal share of what the other destinations leave.
	MaxInFlight      int   `envconfig:"MAX_IN_FLIGHT" only:"destination" least:"1" most:"1000000"`
	MaxInFlightBytes int64 `envconfig:"MAX_IN_FLIGHT_BYTES" only:"destination" least:"1KiB"`
	// Paused reports whether publishing is to pause. It is called every second. By default nothing pauses.
	Paused func() bool
	// SettingName returns the user's name for a field of this struct, for errors. By default errors name the field.
	SettingName func(field string) string

	route    route.Route     // how messages are made
	profile  profile.Profile // applies the wire format; nil for plain
	paused   atomic.Bool     // the last result of Paused
	hints    chan string     // sources of hints to the engine that there may be new rows
	changed  atomic.Bool     // such a hint says that rows may have been changed by hand
	measured *measure.Destination
	pinged   atomic.Pointer[error]           // result of the last ping; nil before the first
	state    atomic.Pointer[engine.Snapshot] // the last state that the engine published; nil before
	panicked sync.Map                        // places of panics that were logged
}

// untaken is the name that stands for no destination in metrics.
const untaken = "none"

// takeAll reports whether each row that is inserted has a destination.
func takeAll(destinations []*Destination) bool {
	return slices.ContainsFunc(destinations, func(d *Destination) bool {
		return d.FailedOf == "" && d.RelayedOf == "" && pattern.SQL("topic", d.Topics) == pattern.Always
	})
}

// snapshot returns the state that the engine published last.
func (d *Destination) snapshot() engine.Snapshot {
	if s := d.state.Load(); s != nil {
		return *s
	}
	return engine.Snapshot{}
}

// newMetrics makes the instruments, and what each destination begins with.
func newMetrics(meter metric.Meter, destinations []*Destination) (*measure.Metrics, error) {
	m, err := measure.New(meter)
	if err != nil {
		return nil, err
	}
	for _, d := range destinations {
		d.measured, d.hints = m.Destination(d.Name), make(chan string, 1)
	}
	return m, nil
}

// allOf returns the combined state of all destinations.
func allOf(destinations []*Destination) (s engine.Snapshot) {
	s.Held = map[engine.Cause]int64{}
	for _, d := range destinations {
		one := d.snapshot()
		s.InFlight += one.InFlight
		s.Stuck += one.Stuck
		for c, n := range one.Held {
			s.Held[c] += n
		}
	}
	return s
}

// prepare gives the message of a row its form. A panic in a profile or a template concerns this row alone.
func (d *Destination) prepare(c *Config, r *engine.Row, now time.Time) {
	if c.TraceRows {
		r.Ended = rowSpan(c.Tracer, d.Name, r, now)
	}
	if caught := d.guard(c.Logger, "the row fails that was being made into a message", func() {
		d.render(r.Row, r.Try)
	}); caught != nil {
		r.Invalid = publisher.PermanentError("panic", "the row cannot be made into a message: %w", caught)
	}
}

// guard calls do. A panic in it is logged with its consequence, once for each place, and returned.
func (d *Destination) guard(logger *slog.Logger, consequence string, do func()) (caught *panics.Error) {
	defer func() {
		if value := recover(); value != nil {
			caught = panics.Caught(value)
			if _, logged := d.panicked.LoadOrStore(caught.Place, nil); !logged {
				logger.Error("panic: please report it, with the stack",
					"destination", d.Name, "consequence", consequence, "error", caught, "stack", caught.Stack)
			}
		}
	}()
	do()
	return nil
}

// render gives a row's message its form on the broker.
func (d *Destination) render(row *outbox.Row, attempt int64) {
	if d.FailedOf != "" {
		d.shed(row)
	}
	row.Message.Time = d.route.Time.Of(row)
	// A dead letter is sent as it is: it shows what was wrong with it.
	if err := d.route.Encoding.Decode(row); err != nil && row.Invalid == nil && d.FailedOf == "" {
		row.Invalid = err
	}
	if d.profile != nil && row.Invalid == nil {
		headers := row.Message.Headers
		if row.Invalid = d.profile(&row.Message, attempt); d.FailedOf != "" {
			describe(&row.Message, headers)
		}
	}
	if err := d.route.Address(row); err != nil && row.Invalid == nil {
		row.Invalid = err
	}
	d.identify(row)
}

// identify gives a message the dedup id that it has at this destination. Destinations with columns of their own may
// write the same row into one stream; there the destination's name distinguishes the copies. If destinations divide the
// rows among them, only one of them has a given row.
func (d *Destination) identify(row *outbox.Row) {
	m := &row.Message
	if d.DedupPrefix != "" {
		if _, rest, found := strings.Cut(m.DedupID, "/"); found { // a UUID has no prefix
			m.DedupID = d.DedupPrefix + "/" + rest
		}
	}
	if d.Columns != nil {
		m.DedupID += "/" + d.Name
	}
	if d.FailedOf != "" { // a row that is retried and fails again is a new dead letter
		m.DedupID += "@" + strconv.FormatInt(row.Due.UnixMicro(), 10)
	}
}
