package relay

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// Config says what a [Relay] relays, and how. Every field except Destinations has a default. The tags are those of the
// program's settings (package config); New does not read them.
type Config struct {
	// Destinations are the brokers that rows go to. At least one is required.
	Destinations []*Destination

	// Table is the outbox table, with its schema if the schema is not in the search path. The default is
	// outbox_messages.
	Table string `envconfig:"TABLE" default:"outbox_messages"`
	// Columns maps the usual names of columns (key, order, topic and so on) to the table's names. The name header.NAME
	// stands for a column that is sent as the header NAME. By default columns have their usual names.
	Columns map[string]string `envconfig:"COLUMNS"`
	// Key is the source of a row's ordering key: column:NAME, header:NAME, payload:a.b, topic or none. The default is
	// the column key, if the table has one.
	Key string `envconfig:"KEY"`
	// Delete deletes rows that every destination has acknowledged. By default their relayed_at is set instead.
	Delete bool `envconfig:"SETTLE" default:"mark" oneof:"mark,delete"`

	// BatchSize is the number of rows that are read and published at a time. The default is 1000.
	BatchSize int `envconfig:"BATCH_SIZE" default:"1000" least:"1" most:"100000"`
	// MaxInFlight is the largest number of rows that are read and not yet settled, over all destinations. It limits the
	// duplicates after a crash. The default is 4096.
	MaxInFlight int `envconfig:"MAX_IN_FLIGHT" default:"4096" least:"1" most:"1000000"`
	// MaxInFlightBytes is the same limit in bytes of payload. The default is 64 MiB.
	MaxInFlightBytes int64 `envconfig:"MAX_IN_FLIGHT_BYTES" default:"64MiB" least:"1KiB"`
	// MaxRowBytes is the size from which a row fails without being read. The default is 64 MiB, or MaxInFlightBytes,
	// which are chosen to fit into memory, if that is more.
	MaxRowBytes int64 `envconfig:"MAX_ROW_BYTES" least:"1KiB"`

	// PollInterval is the longest pause between two polls for new rows. The default is 50 ms, or one second while a
	// doorbell works and there is nothing to do.
	PollInterval time.Duration `envconfig:"POLL_INTERVAL" default:"50ms" least:"1ms"`
	// ListenChannel is the channel of LISTEN on which inserts may announce themselves. The default is outbox_messages;
	// [NoChannel] turns LISTEN off.
	ListenChannel string `envconfig:"LISTEN_CHANNEL" default:"outbox_messages" empty:"true"`
	// Shards is the number of units of ownership, the same in every replica. The default is 16.
	Shards int `envconfig:"SHARDS" default:"16" least:"1" most:"1024"`
	// OwnerTTL is how long a replica that has fallen silent keeps its shards. The default is ten seconds.
	OwnerTTL time.Duration `envconfig:"OWNER_TTL" default:"10s" least:"1s" most:"1d"`
	// StopTimeout limits the duration of a clean stop. The default is 25 seconds.
	StopTimeout time.Duration `envconfig:"SHUTDOWN_TIMEOUT" default:"25s" least:"1ms"`

	// Direct is the configuration of connections to the server itself, for ownership and LISTEN, where the pool goes
	// through a transaction pooler such as PgBouncer. By default these connections are made like the pool's.
	Direct *pgxpool.Config

	// Meter makes the instruments. By default nothing is measured.
	Meter metric.Meter
	// Tracer makes a span for each batch. By default nothing is traced.
	Tracer trace.Tracer
	// TraceRows makes Tracer also record a span for each row whose traceparent is sampled.
	TraceRows bool `envconfig:"TRACE_ROWS" default:"false"`
	// Logger takes the log. The default is [slog.Default].
	Logger *slog.Logger
	// SettingName returns the user's name for a field of this struct, for errors. By default errors name the field.
	SettingName func(field string) string

	// NewPool sets these. Connections of its pool are given up that no longer lead anywhere, or to another server than
	// the one that holds the ownership of the rows. New sets connect for a pool of the user's.
	silent  func()                                   // gives up all connections of the pool
	witness *owner.Witness                           // asked only where there are several addresses
	connect func(context.Context) (*pgx.Conn, error) // makes connections that do not go through a pooler
}

// NoChannel is the [Config.ListenChannel] that turns LISTEN off.
const NoChannel = "-"

const defaultTTL = 10 * time.Second

// patience returns how long the database may take to answer before a connection is suspected of being lost.
func (c *Config) patience() time.Duration { return min(cmp.Or(c.OwnerTTL, defaultTTL)/2, mostPatience) }

// channel returns the channel of LISTEN, or "" for none.
func (c *Config) channel() string {
	if c.ListenChannel == NoChannel {
		return ""
	}
	return cmp.Or(c.ListenChannel, "outbox_messages")
}
