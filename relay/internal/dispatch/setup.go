package dispatch

import (
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/late"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/report"
)

// Setup is what a dispatch is made from.
type Setup struct {
	To      Destination
	Limits  Limits
	Workers int // number of lanes for rows of keys that do not wait
	Shards  int // total number of shards
	Table   Table
	Late    *late.Commits
	Flights Flights
	Beside  func(now time.Time) bool // reports whether rows of other destinations flow
	Measure *measure.Destination
	Logger  *slog.Logger // adds the destination's name
}

// Destination is what a dispatch knows of its destination. A MaxAge or Rate of 0 means no limit.
type Destination struct {
	MaxAttempts            int64
	BackoffMin, BackoffMax time.Duration
	MaxAge                 time.Duration
	BlockFailed            bool
	Rate                   float64 // rows per second
	Nowhere                bool    // stands for rows that no destination takes: they are handed to no broker

	Prepare  func(*Row, time.Time) // gives the message of a row its form
	Reported *report.Outage        // what has been logged of the broker
}

// Table is what a dispatch knows of the table.
type Table interface {
	Before(p, q outbox.Position) bool // table order, as far as ordinals and ids decide it

	Ordinal() bool       // whether positions have ordinals
	Unique() bool        // whether no two rows have the same ordinal
	Ranked() bool        // whether new rows may come before older ones
	KeyIndexed() bool    // whether pending rows are found by their keys at little cost
	KeyFiltered() bool   // whether the database can leave out rows of other keys while it goes through the table in its order
	KeepsFailures() bool // whether rows can fail
	KeepsAttempts() bool // whether tries are counted
	KeepsErrors() bool   // whether the reason of a refusal is written
}

// Flights tracks the rows in flight, where several destinations have each row.
type Flights interface {
	Others(topic string) uint64 // the other sets of columns that take rows of a topic
	Begin(*Row)
	End(*Row)
	Reached(upto int64) // rows up to this ordinal have been read
}

// Limits limit what a destination holds in memory.
type Limits struct {
	Batch int   // rows in a read and in a publish
	Rows  int   // rows in flight
	Bytes int64 // bytes in flight; a larger row goes alone

	Keys     int           // number of waiting keys that are remembered one by one; 0 for the default
	Patience time.Duration // how long a shard that is to be released waits for rows that another session keeps locked
}
