package relay

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// row is one row in flight: read, and not yet settled or forgotten. Only the dispatch touches it,
// except that a worker reads it while its batch is on the wire.
type row struct {
	*outbox.Row
	destination *Destination
	worker      int // its lane
	key         key
	hash        uint64 // of the key
	size        int64
	number      uint64    // rows that were read later have larger ones
	answered    time.Time // when it was accepted
	others      uint64    // other sets of columns that are to have a mark of it
	wait        *wait     // of which it is the head that is tried
	span        *rowSpan  // nil for none

	late    bool  // committed after younger rows had been read
	unknown int   // publishes of this row whose outcome is unknown
	attempt int64 // the number of the coming try
}

// key is what order is kept for: an ordering key, or the row itself when it has none.
type key struct {
	text    string
	keyless bool
}

// keyOf returns the key of a row. One that is read by its available_at keeps no order, and waits for itself alone.
func keyOf(r *outbox.Row) key {
	if text, ok := r.Key(); ok && !r.Delayed {
		return key{text: text}
	}
	return key{text: r.ID(), keyless: true}
}

var seed = maphash.MakeSeed()

// hash tells keys apart, and a row without a key from the key that has its id for a name. Two keys that have a hash in common share
// their fate, which does no harm.
func (k key) hash() uint64 {
	h := maphash.String(seed, k.text)
	if k.keyless {
		return ^h
	}
	return h
}

// ordering is the key that the application gave the row, also one that keeps no order: failed rows block it, and a lane is its own.
func (r *row) ordering() key {
	if !r.Delayed {
		return r.key
	}
	text, ok := r.Key()
	return key{text: text, keyless: !ok}
}

// lane is the hash that chooses the lane: that of the key, also for rows that keep no order, so that their key is in one call at a time.
func (r *row) lane() uint64 {
	if k := r.ordering(); r.Delayed && !k.keyless {
		return k.hash()
	}
	return r.hash
}
