package engine

// recent is a Bloom filter of at least the last recentMost hashes, and at most twice as many. It never denies any of
// them, and takes fewer than one in 500 other hashes for one of them.
type recent struct {
	bits, older []uint64 // nil if there are no hashes
	n           int      // number of hashes in bits
}

const (
	recentMost = 1 << 17
	recentBits = 16 * recentMost // a power of two
	recentEach = 6               // bits for each hash
)

// places yields the places of a hash's bits: the word, and the bit in it.
func places(hash uint64, yield func(word, bit uint64) bool) bool {
	for i, step := 0, hash>>32|1; i < recentEach; i, hash = i+1, hash+step {
		if !yield(hash%recentBits/64, 1<<(hash%64)) {
			return false
		}
	}
	return true
}

// add adds a hash.
func (c *recent) add(hash uint64) {
	if c.bits == nil || c.n == recentMost {
		c.bits, c.older, c.n = make([]uint64, recentBits/64), c.bits, 0
	}
	c.n++
	places(hash, func(word, bit uint64) bool { c.bits[word] |= bit; return true })
}

// has reports whether a hash was added recently, or is taken for one that was.
func (c *recent) has(hash uint64) bool {
	has := func(bits []uint64) bool {
		return bits != nil && places(hash, func(word, bit uint64) bool { return bits[word]&bit != 0 })
	}
	return has(c.bits) || has(c.older)
}
