// Package keys remembers large numbers of keys, by their hashes, in a fixed amount of memory.
package keys

// Set is a set of keys that takes a fixed amount of memory for any number of keys. It may appear to hold a few keys
// that were not added. A nil Set is empty.
type Set bloom

// Each key sets some bits of 1 MiB. With 100,000 keys, one other key in 200,000 is taken for a member of the set and
// waits as long as the members do. With a million keys it is one in fifty.
const (
	setBits   = 1 << 23
	setHashes = 4
)

// Add adds a key by its hash.
func (s *Set) Add(hash uint64) {
	if *s == nil {
		*s = make(Set, setBits/64)
	}
	bloom(*s).add(hash, setHashes)
}

// Merge adds the keys of another set, which must not be empty.
func (s *Set) Merge(other Set) {
	if *s == nil {
		*s = make(Set, setBits/64)
	}
	for i, bits := range other {
		(*s)[i] |= bits
	}
}

// Lacks reports whether the other set has a key that is not in this one.
func (s Set) Lacks(other Set) bool {
	for i, bits := range other {
		if s == nil && bits != 0 || s != nil && bits&^s[i] != 0 {
			return true
		}
	}
	return false
}

// Has reports whether a key was added, or is taken for one that was.
func (s Set) Has(hash uint64) bool { return bloom(s).has(hash, setHashes) }
