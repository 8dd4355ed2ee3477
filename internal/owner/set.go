package owner

import "math/bits"

// MaxShards is the largest number of shards.
const MaxShards = 1024

// A Set is a set of shards. Sets can be compared with ==.
type Set [MaxShards / 64]uint64

// Add adds a shard.
func (s *Set) Add(shard int) { s[shard/64] |= 1 << (shard % 64) }

// Has reports whether a shard is in s.
func (s Set) Has(shard int) bool { return s[shard/64]&(1<<(shard%64)) != 0 }

// Len returns how many shards are in s.
func (s Set) Len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// Without returns the shards of s that are not in t.
func (s Set) Without(t Set) Set {
	for i := range s {
		s[i] &^= t[i]
	}
	return s
}

// Or returns the shards that are in either.
func (s Set) Or(t Set) Set {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// And returns the shards that are in both.
func (s Set) And(t Set) Set {
	return s.Without(s.Without(t))
}

// Shards lists the shards in s, smallest first.
func (s Set) Shards() []int {
	shards := make([]int, 0, s.Len())
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			shards = append(shards, i*64+bits.TrailingZeros64(word))
		}
	}
	return shards
}
