// Package keys remembers large numbers of hashes in little memory.
package keys

// Recent is a Bloom filter of at least the last recentMost hashes, and at most twice as many. It never denies any of
// them, and takes fewer than one in 500 other hashes for one of them.
type Recent struct {
	recent, older bloom
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
		c.recent, c.older, c.n = make(bloom, recentBits/64), c.recent, 0
	}
	c.n++
	c.recent.add(hash, recentEach)
}

// Has reports whether a hash was added recently, or is taken for one that was.
func (c *Recent) Has(hash uint64) bool {
	return c.recent.has(hash, recentEach) || c.older.has(hash, recentEach)
}
