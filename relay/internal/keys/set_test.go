package keys

import (
	"fmt"
	"hash/maphash"
	"testing"
)

// Every key that was added is found, and almost none of the others: they would wait as long as the keys of the set.
func TestSetHasFewOthers(t *testing.T) {
	const keys = 100_000
	seed := maphash.MakeSeed()
	hash := func(text string, i int) uint64 { return maphash.String(seed, fmt.Sprint(text, i)) }
	var added, merged Set
	for i := range keys {
		added.Add(hash("in", i))
	}
	merged.Merge(added)
	others := 0
	for i := range keys {
		if h := hash("in", i); !added.Has(h) || !merged.Has(h) {
			t.Fatalf("number %d is not in the set", i)
		}
		if added.Has(hash("out", i)) {
			others++
		}
	}
	if others > 20 {
		t.Errorf("%d of %d others are taken for members", others, keys)
	}
	if added.Lacks(merged) || !Set(nil).Lacks(added) {
		t.Error("sets of the same keys differ, or none has them")
	}
}
