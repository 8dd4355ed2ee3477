package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// Setup is what an engine is made from. It does not change while the engine lives. A MaxAge or Rate of 0 means no
// limit.
type Setup struct {
	MaxAttempts            int64         // a row refused so often has failed; trouble of the broker is not counted
	BackoffMin, BackoffMax time.Duration // bounds of the wait after a refusal; see [retry.Backoff]
	MaxAge                 time.Duration // a row that was due for longer fails, by the database's clock
	BlockFailed            bool          // a failed row blocks its key
	Rate                   float64       // rows per second, over all replicas

	// Prepare gives the message of a row its form: template, wire format, span. It is called once for each row that is
	// read, before the row is queued, and by the engine's goroutine, so it must not block. What is wrong with a row is
	// left in Row.Invalid, and the row fails when its turn in its key has come.
	Prepare func(*Row, time.Time)

	Limits  Limits
	Shards  int // total number of shards
	Table   Table
	Measure *measure.Destination
	Logger  *slog.Logger // adds the destination's name

	// Jitter returns a random part of a duration, by default by rand.N. Simulations give one of their own, so that a
	// seed decides everything.
	Jitter func(time.Duration) time.Duration
}

// Table is what an engine knows and asks of its table. [outbox.Table] is one. The three reads block, and are made by
// [Read.Do] in a goroutine of the user's; the others answer at once and give the same answer for as long as the engine
// lives. A table whose answers change is reopened, with a new engine.
type Table interface {
	Tail(context.Context, outbox.Query) (outbox.Page, error)
	Keys(context.Context, outbox.Query) (outbox.Page, error)
	Blocked(context.Context, outbox.Query) (outbox.Page, error)

	Ordinal() bool       // order values are numbers or times, so that the engine can compare them
	Timed() bool         // they are times of transactions' beginnings
	Ranked() bool        // new rows may come before older ones
	Delays() bool        // rows can become due later than they are written, and are read in table order
	ReadsDue() bool      // rows with available_at have a read of their own
	Exact() bool         // Row.Writer is the top-level transaction
	KeyIndexed() bool    // an index leads to the pending rows of a key
	KeepsFailures() bool // rows can fail
	KeepsAttempts() bool // tries are counted
	KeepsErrors() bool   // the reason of a refusal is written
}

// Limits bound what an engine holds in memory, and its pace. Zero durations and numbers of keys mean the defaults. The
// bounds in rows and bytes are those of one destination, so that a destination that is down takes no room from another
// one.
type Limits struct {
	Batch int   // rows in a read and in a publish, at most three eighths of Rows; see pageOf
	Rows  int   // rows in flight; also the most that a crash publishes again
	Bytes int64 // bytes in flight; a larger row goes alone

	Keys    int // keys that are read by themselves and remembered one by one
	Waiting int // further keys that wait, of which only the hash is remembered; a fifth may be rows without a key

	Poll     time.Duration // longest pause of an owner; see poll for the default
	Patience time.Duration // how long a shard that is to be released waits for rows that another session keeps locked
}

// The defaults. A key takes some 200 bytes, and one that only waits some 45: with all room taken that is 26 MB and 56
// MB for each destination. Beyond that nothing new is read (see waits.jammed), also no rows of healthy keys.
const (
	mostKeys    = 1 << 17
	mostWaiting = 1_250_000
)

// StatementTimeout limits one statement. A connection on which one takes longer counts as dead. The user gives a read
// that has run out of time a longer limit.
const StatementTimeout = 30 * time.Second

// TryLanes is the number of additional lanes, for keys that were not accepted the last time. A publish that may stay
// without an answer does not delay other keys there. There are two, so that one call without an answer does not keep
// the tries of all other keys waiting for its timeout.
const TryLanes = 2
