package engine

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Row is in flight: from its read until its outcome is known to be written. Only the engine touches it, except that
// it is a worker's while it is on the wire, and the settlement reads it while its outcome is being written.
type Row struct {
	*outbox.Row
	Size  int64                             // bytes of the message, with rowOverhead: what it counts in Limits.Bytes
	Try   int64                             // number of the next attempt, with refusals that only memory counts
	Ended func(failed error, now time.Time) // called when the row is marked or has failed, unless it is nil
	// Refused is why the row was not accepted, and Failed says that it is not tried again.
	Refused error
	Failed  bool
	// Set by a worker: as far as the database could tell, it would mark the row; or why it would not, so that the row
	// was not published.
	Rehearsed  bool
	Unmarkable error

	key      *key      // never nil, also when the engine has forgotten the key
	read     uint64    // number of the read that has brought it
	topic    string    // its own, before a template was applied: sweeps bring rows as they are in the table
	after    time.Time // end of the backoff of its last refusal; zero if it was not refused
	expires  time.Time // when it is too old to be published; zero for never
	accepted time.Time // when the broker had it
}

// Beside reports whether two rows are of the same key.
func (r *Row) Beside(other *Row) bool { return r.key == other.key }

// rowOverhead is the approximate memory that a row in flight takes in addition to its message, in bytes: the structs,
// its place in two maps, and slices that grow by doubling. Without it, many small rows would take several times the
// limit.
const rowOverhead = 400

var seed = maphash.MakeSeed()

// stampOf identifies what may be wrong with a row: which one it is, and its topic. 0 is none. A key that waits keeps
// the stamp of the row that stopped it, so that a sweep notices when that row was deleted or sent to another topic by
// hand. Without that, in a simulation, 2,250 keys still waited after 16 minutes although their rows for the missing
// topic were gone.
func stampOf(identity, topic string) uint32 {
	return uint32(maphash.String(seed, identity)^maphash.String(seed, topic)) | 1
}

// sentHash identifies a row among those that were sent. The seed differs in each process, so that nobody can write ids
// that collide.
func sentHash(r *Row) uint32 { return uint32(maphash.String(seed, r.Identity())) }

// addressOf returns where a row is published to.
func addressOf(r *Row) publisher.Address {
	return publisher.Address{Topic: r.Message.Topic, Exchange: r.Message.Exchange}
}

// finish ends the row's span.
func (r *Row) finish(failed error, now time.Time) {
	if r.Ended != nil {
		r.Ended(failed, now)
	}
}

// land notes that a row is not in flight any more, and that a read may bring it as new from now on. It is for rows that
// stay pending in the table: they were not published, or are to be published again. Rows that were written take done.
func (e *Engine) land(r *Row) {
	if e.flying[r.Identity()] == r { // else somebody has moved the row to another key, and it is in flight there
		delete(e.flying, r.Identity())
	}
	e.bytes -= r.Size
	e.shards.flying[r.Shard]--
	r.key.flying--
}

// done lands a row of which a read that is under way may still bring the version before it was written. Such a read has
// a snapshot of its own, which the row's mark does not change: without gone, such a read would bring the row as new,
// and it would be published twice.
func (e *Engine) done(r *Row) {
	if e.reads.oldest() != 0 {
		e.gone[r.Identity()] = e.reads.last
	}
	e.land(r)
}
