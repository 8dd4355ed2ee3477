package relay

import (
	"hash/maphash"

	"github.com/outbox-relay/outbox-relay/outbox"
)

// row is one row in flight: read, and not yet settled or forgotten. Only the dispatch touches it,
// except that a worker reads it while its batch is on the wire.
type row struct {
	*outbox.Row
	destination *destination
	worker      int
	key         key
	size        int64

	// block is set when the row came from the re-read of its blocked key, and generation is that
	// re-read's. The row is void once the block has moved on.
	block      *block
	generation int

	late    bool  // committed after younger rows had been read
	unknown int   // publishes of this row whose outcome is unknown
	attempt int64 // the number of the coming try
}

// key is what order is kept for: an ordering key, or the row itself when it has none.
type key struct {
	text    string
	keyless bool
}

func keyOf(r *outbox.Row) key {
	if text, ok := r.Key(); ok {
		return key{text: text}
	}
	return key{text: r.ID(), keyless: true}
}

var seed = maphash.MakeSeed()

func (k key) hash() uint64 { return maphash.String(seed, k.text) }
