package keys

// Recent is a Bloom filter of at least the last recentMost hashes, and at most twice as many. It never denies any of
// them, and takes fewer than one in 500 other hashes for one of them.
type Recent struct {
	recent, older []uint64
	n             int // number of hashes in recent
}

const (
	recentMost = 1 << 17
	recentBits = 16 * recentMost
	recentEach = 6 // bits for each hash
)

// Add adds a hash.
func (c *Recent) Add(hash uint64) {
	if c.recent == nil || c.n == recentMost {
		c.recent, c.older, c.n = make([]uint64, recentBits/64), c.recent, 0
	}
	c.n++
	for i := range uint64(recentEach) {
		at := recentBit(hash, i)
		c.recent[at/64] |= 1 << (at % 64)
	}
}

// Has reports whether a hash was added recently, or is taken for one that was.
func (c *Recent) Has(hash uint64) bool { return among(c.recent, hash) || among(c.older, hash) }

func among(bits []uint64, hash uint64) bool {
	if bits == nil {
		return false
	}
	for i := range uint64(recentEach) {
		if at := recentBit(hash, i); bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func recentBit(hash, i uint64) uint64 { return (hash + i*(hash>>32|1)) % recentBits }
