// Package keys remembers very many keys, by their hashes, in a fixed amount of memory.
package keys

// Set is a set of keys that takes a fixed amount of memory, however many there are: it may also have a few
// that were not added. nil is the empty set.
type Set []uint64

// Each key sets some bits of 1 MiB: with 100,000 keys one other key in 200,000 is taken for one of them, and waits with them for as long as
// they do. With a million keys it is one in fifty.
const (
	setBits   = 1 << 23
	setHashes = 4
)

// Add adds a key by its hash.
func (s *Set) Add(hash uint64) {
	if *s == nil {
		*s = make(Set, setBits/64)
	}
	for bit, step, i := bitsOf(hash); i > 0; bit, i = (bit+step)%setBits, i-1 {
		(*s)[bit/64] |= 1 << (bit % 64)
	}
}

// Merge adds the keys of another set that is not empty.
func (s *Set) Merge(other Set) {
	if *s == nil {
		*s = make(Set, setBits/64)
	}
	for i, bits := range other {
		(*s)[i] |= bits
	}
}

// Lacks reports whether a key of the other set is not in this one.
func (s Set) Lacks(other Set) bool {
	for i, bits := range other {
		if s == nil && bits != 0 || s != nil && bits&^s[i] != 0 {
			return true
		}
	}
	return false
}

// Has reports whether a key was added, or is taken for one that was.
func (s Set) Has(hash uint64) bool {
	if s == nil {
		return false
	}
	for bit, step, i := bitsOf(hash); i > 0; bit, i = (bit+step)%setBits, i-1 {
		if s[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// bitsOf returns a key's first bit, how far it is to the next one, and how many there are.
func bitsOf(hash uint64) (first, step uint64, n int) {
	return hash % setBits, hash>>32 | 1, setHashes
}
