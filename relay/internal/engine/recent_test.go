package engine

import (
	"hash/maphash"
	"testing"
)

// However many hashes were added before, the last ones are known, and hardly any others.
func TestRecentHashesAreKnown(t *testing.T) {
	t.Parallel()
	var c recent
	seed := maphash.MakeSeed()
	hash := func(i int) uint64 { return maphash.Comparable(seed, i) }
	const rounds = 5
	for i := range rounds * recentMost {
		c.add(hash(i))
	}
	for i := range recentMost {
		if !c.has(hash((rounds-1)*recentMost + i)) {
			t.Fatalf("number %d of the last ones is forgotten", i)
		}
	}
	strangers := 0
	for i := range recentMost {
		if c.has(hash(-1 - i)) {
			strangers++
		}
	}
	if strangers > recentMost/200 {
		t.Errorf("%d of %d others are taken for known", strangers, recentMost)
	}
}
