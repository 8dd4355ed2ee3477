package feed

import (
	"testing"
	"time"
)

// When the tail scan begins again, the reads in table order begin again, too. If they went on from their place, they would
// take younger rows of keys that are no longer remembered.
func TestGuardBeginsAgainWithTheTailScan(t *testing.T) {
	now := time.Now()
	f := New(&order{ranked: true, indexed: true}, 2, 100, time.Second, 0, now)
	// guarded makes reads until one is in table order, and returns whether it begins at the first row.
	guarded := func() (first bool) {
		for n := int64(1); n < 100; n++ {
			q, kind, ok := f.Next(now, 100, 1<<20)
			if !ok {
				t.Fatal("nothing to read")
			}
			f.Read(kind, fullPage(2*n, 2*n+1), now, now)
			if kind == Guard {
				return q.After.IsZero()
			}
			f.plan(0, now, false)
		}
		t.Fatal("no read is in table order")
		return false
	}
	if !guarded() || guarded() {
		t.Error("reads in table order do not go on from one to the next")
	}
	f.guard.reads = readsPerGuard - 1
	f.Again()
	if now = now.Add(2 * time.Second); !guarded() { // after a read of the first page
		t.Error("the tail scan begins again, and reads in table order go on in the middle")
	}
}
