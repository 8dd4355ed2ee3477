package relay

import (
	"fmt"
	"testing"
)

// Every key that was added is found, and of those that were not next to none: they would wait for as long as what is held.
func TestKeySetHasFewOthers(t *testing.T) {
	const keys = 100_000
	var added, merged keySet
	for i := range keys {
		added.add(key{text: fmt.Sprint("in", i)}.hash())
	}
	merged.merge(added)
	others := 0
	for i := range keys {
		if k := (key{text: fmt.Sprint("in", i)}); !added.has(k.hash()) || !merged.has(k.hash()) {
			t.Fatalf("%s is not in the set", k.text)
		}
		if added.has(key{text: fmt.Sprint("out", i)}.hash()) {
			others++
		}
	}
	if others > 20 {
		t.Errorf("%d of %d others are taken for members", others, keys)
	}
	if added.lacks(merged) || !keySet(nil).lacks(added) {
		t.Error("sets of the same keys differ, or none has them")
	}
}
