package dispatch

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Row is a row in flight: read, and not yet settled or forgotten. Only the dispatch touches it, except that a worker
// reads it while its batch is on the wire.
type Row struct {
	*outbox.Row
	worker   int // index of its lane
	key      key
	Hash     uint64 // hash of the key
	Size     int64
	number   uint64                            // larger for rows that were read later
	answered time.Time                         // when it was accepted
	Others   uint64                            // other sets of columns that are to have a mark for the row
	wait     *Wait                             // the wait whose head it is, while it is tried
	Ended    func(failed error, now time.Time) // called when the row is marked or has failed; nil if there is nothing to call

	late    bool   // committed after younger rows had been read
	left    bool   // its shard was lost while it was on the wire, or failing
	blocks  bool   // its failure is being written, and blocks its key
	scan    uint32 // number of the catch-up scan that its key waited for, and that has brought what is before it
	metBy   uint32 // number of the last catch-up scan that has come by it while it was in flight; 0 if none has
	metAt   uint64 // the number that it would have from that scan
	unknown int    // number of publishes of this row whose outcome is unknown
	Try     int64  // number of the next attempt
}

// finish ends the row's span.
func (r *Row) finish(failed error, now time.Time) {
	if r.Ended != nil {
		r.Ended(failed, now)
	}
}

// key is what rows are ordered by: an ordering key, or the row itself if it has none.
type key struct {
	text    string
	keyless bool
}

// keyOf returns the key of a row. A row that is read by its available_at keeps no order, and waits for itself alone.
func keyOf(r *outbox.Row) key {
	if text, ok := r.Key(); ok && !r.Delayed {
		return key{text: text}
	}
	return key{text: r.ID(), keyless: true}
}

var seed = maphash.MakeSeed()

// Hash returns a hash that distinguishes keys, and a row without a key from the key with the same text as its id. Two
// keys with the same hash wait together, which does no harm.
func (k key) Hash() uint64 {
	h := maphash.String(seed, k.text)
	if k.keyless {
		return ^h
	}
	return h
}

// ordering returns the key that the application gave the row, even if the row keeps no order: failed rows block this
// key, and it decides the lane.
func (r *Row) ordering() key {
	if !r.Delayed {
		return r.key
	}
	text, ok := r.Key()
	return key{text: text, keyless: !ok}
}

// lane returns the hash that decides the lane: the hash of the key, also for rows that keep no order, so that their key
// is in one call at a time.
func (r *Row) lane() uint64 {
	if k := r.ordering(); r.Delayed && !k.keyless {
		return k.Hash()
	}
	return r.Hash
}
