package relay

// keySet is a set of keys that takes a fixed amount of memory, however many there are: it may also have a few
// that were not added. nil is the empty set.
type keySet []uint64

// keySetBits is 1 MiB of bits: with a million keys one other key in nine is taken for one of them, and waits
// with them.
const keySetBits = 1 << 23

func (s *keySet) add(k key) {
	if *s == nil {
		*s = make(keySet, keySetBits/64)
	}
	bit := k.hash() % keySetBits
	(*s)[bit/64] |= 1 << (bit % 64)
}

// merge adds the keys of another set that is not empty.
func (s *keySet) merge(other keySet) {
	if *s == nil {
		*s = make(keySet, keySetBits/64)
	}
	for i, bits := range other {
		(*s)[i] |= bits
	}
}

// lacks reports whether a key of the other set is not in this one.
func (s keySet) lacks(other keySet) bool {
	for i, bits := range other {
		if s == nil && bits != 0 || s != nil && bits&^s[i] != 0 {
			return true
		}
	}
	return false
}

func (s keySet) has(k key) bool {
	if s == nil {
		return false
	}
	bit := k.hash() % keySetBits
	return s[bit/64]&(1<<(bit%64)) != 0
}
