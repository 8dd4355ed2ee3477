package engine

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
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

// dueKeys distinguishes the keys of rows that are read by their available_at from those of rows in table order. The
// statements that read such rows name each by its id, so they keep no order, and no other row waits for them. The two
// kinds have different indexes, and a statement that reads keys follows one of them.
const dueKeys = 0x9e3779b97f4a7c15

// nameOf returns the name by which the engine knows a key with a hash, and the hash of a key with a name. The hash is
// the database's, of eight bytes, so that a key can be read without its text. Two keys with the same hash are one key
// here: they wait together and keep one order, so a collision costs time and never the order. The model of this engine
// had a hash of its own and asked for one of the two keys only, so that rows of the other were overtaken. A row without
// a key whose id has the hash of a key in trouble would make that key one of a row without a key. Nothing guards it
// against that: beside a million such keys, one row in ten trillion has such an id.
func nameOf(hash uint64, due bool) uint64 {
	if due {
		return hash ^ dueKeys
	}
	return hash
}

// keyless reports whether a row is a key of its own. Rows that are read by their available_at are, whatever their key.
func keyless(r *outbox.Row) bool { _, keyed := r.Key(); return !keyed || r.Delayed }

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

// take queues a row that was read, unless it is known, and reports whether it was new. It is the only way into flying
// (invariant 1), for the rows of the tail as for those of a key's own read. Both have made sure before that the row may
// follow what is queued of its key.
func (e *Engine) take(r *outbox.Row, k *key, from *Read, now time.Time) bool {
	if !e.shards.active.Has(r.Shard) || e.isKnown(r.Identity(), from.number) {
		return false
	}
	row := &Row{Row: r, key: k, read: from.number, Try: r.Attempt, topic: r.Message.Topic}
	if k.refused > 0 && !e.Table.KeepsAttempts() && k.blamed == stampOf(r.Identity(), row.topic) {
		row.Try += k.refused
	}
	// The time since the last refusal comes from the database, so a backoff ends at the same time after a restart. If
	// it is negative, that clock was set back, and a key that was refused here has waited by the relay's clock already.
	if r.Retried && (r.Waited >= 0 || k.refused == 0) {
		row.after = now.Add(retry.Backoff(e.BackoffMin, e.BackoffMax, r.Message.ID, row.Try) - max(0, r.Waited))
	}
	// So does its age: the relay's own clock may differ by minutes. The database's was later than this by now.
	if there := from.Page.Visible.Now; e.MaxAge > 0 && e.Table.KeepsFailures() && !r.Due.IsZero() && !there.IsZero() {
		row.expires = now.Add(r.Due.Add(e.MaxAge).Sub(there))
	}
	e.Prepare(row, now)
	row.Size = int64(r.Message.Size()) + rowOverhead
	e.flying[r.Identity()] = row
	e.bytes += row.Size
	e.queued++
	e.shards.flying[r.Shard]++
	k.flying++
	k.bytes += row.Size
	k.queue = append(k.queue, row)
	e.list(k)
	return true
}

// land notes that a row is not in flight any more, and that a read may bring it as new from now on. It is for rows that
// stay pending in the table: they were not published, or are to be published again. Rows that were written take done.
func (e *Engine) land(r *Row) {
	delete(e.flying, r.Identity())
	e.bytes -= r.Size
	e.shards.flying[r.Shard]--
	r.key.flying--
	r.key.bytes -= r.Size
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

// isKnown reports whether a row is in flight, or was when the read began that has brought it.
func (e *Engine) isKnown(identity string, read uint64) bool {
	gone, is := e.gone[identity]
	return is && gone >= read || e.flying[identity] != nil
}

// elsewhere reports whether a row is in flight under another key, which somebody has changed since. People move a row
// that is refused to another key. Were it simply known, its new key would stay open: in a simulation, a younger row of
// that key was delivered after 47 ms, and the moved row after 4 minutes and 40 seconds, by the sweep.
func (e *Engine) elsewhere(identity string, key uint64) bool {
	f := e.flying[identity]
	return f != nil && f.key.name != key
}
