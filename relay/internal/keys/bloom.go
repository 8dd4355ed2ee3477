package keys

// A bloom is a Bloom filter: of each key that was added, by its hash, some bits are set. It never denies a key that was
// added, and takes few others for one. The number of bits is a power of two. A nil bloom is empty.
type bloom []uint64

func (b bloom) add(hash uint64, each int) {
	most := uint64(len(b))*64 - 1
	for bit, step := hash, hash>>32|1; each > 0; bit, each = bit+step, each-1 {
		b[bit&most/64] |= 1 << (bit % 64)
	}
}

func (b bloom) has(hash uint64, each int) bool {
	if b == nil {
		return false
	}
	most := uint64(len(b))*64 - 1
	for bit, step := hash, hash>>32|1; each > 0; bit, each = bit+step, each-1 {
		if b[bit&most/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}
