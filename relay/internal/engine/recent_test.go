package engine

import "testing"

// However many values were put before, the last ones are known, and no old ones.
func TestRecentValuesAreKnown(t *testing.T) {
	t.Parallel()
	var r recent[int, int]
	const all = 5 * mostRecent
	for i := range all {
		r.put(i, 2*i)
	}
	for i := range mostRecent {
		if v, known := r.get(all - 1 - i); !known || v != 2*(all-1-i) {
			t.Fatalf("number %d of the last ones: %d, %v", i, v, known)
		}
	}
	if _, known := r.get(all - 2*mostRecent - 1); known {
		t.Error("an old value is still known")
	}
}
