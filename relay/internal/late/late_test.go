package late

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A tail scan left out two rows of one key. The next tail scan begins before both. The key's younger rows wait for that tail scan. Those
// that other reads meet wait until it has ended, however often it begins, and no longer.
func TestNextTailScanBeginsBeforeWhatWasLeftOut(t *testing.T) {
	c := New()
	now := time.Now()
	c.Mark(now, 100)
	c.Date(&outbox.Snapshot{Unassigned: 7})
	c.Ended(now.Add(outbox.Late))
	c.LeaveOut(1, 50, false)
	c.LeaveOut(1, 60, false)
	for ordinal, want := range map[int64]bool{49: false, 50: true, 70: true} {
		if first, overtakes := c.Overtakes(1, ordinal, true); overtakes != want || overtakes && first != 50 {
			t.Errorf("%d overtakes %d: %v", ordinal, first, overtakes)
		}
	}
	if _, overtakes := c.Overtakes(2, 70, true); overtakes {
		t.Error("another key waits, too")
	}
	var q outbox.Query
	if !c.Recent(&q, false) || *q.Recent != 50 || !q.Horizon {
		t.Errorf("the next tail scan reads %+v", q)
	}
	for range 2 {
		c.TakeLeftOut()
		_, overtakes := c.Overtakes(1, 70, true)
		first, other := c.Overtakes(1, 70, false)
		if overtakes || !other || first != 50 || c.From(200) != 50 {
			t.Errorf("during it: overtakes %v, in other reads %v; catch-up scans begin at %d", overtakes, other, c.From(200))
		}
	}
	c.Returned()
	if _, overtakes := c.Overtakes(1, 70, false); overtakes || c.From(200) != 100 {
		t.Errorf("after it: overtakes %v, and catch-up scans begin at %d", overtakes, c.From(200))
	}
}

// With more keys than are remembered, every key counts as one of them.
func TestTooManyKeysLeftOut(t *testing.T) {
	c := New()
	for key := range uint64(mostLeftOut) {
		c.LeaveOut(key, int64(key)+10, false)
	}
	c.LeaveOut(1<<40, 5, false)
	for range 2 {
		if first, overtakes := c.Overtakes(1<<50, 10, false); !overtakes || first != 5 {
			t.Errorf("a key that is not remembered overtakes %d: %v", first, overtakes)
		}
		if _, overtakes := c.Overtakes(1<<50, 4, false); overtakes {
			t.Error("a row before all of them waits")
		}
		c.TakeLeftOut()
		c.LeaveOut(1<<41, 100, false)
	}
}

// At least the last accepted keys are remembered, and the total number of keys is bounded.
func TestAcceptedKeysAreBounded(t *testing.T) {
	c := New()
	for key := range uint64(10 * mostAccepted) {
		c.Accepted(key, 5)
		c.Accepted(key, 3)
	}
	const last = 10*mostAccepted - 1
	if !c.OutOfOrder(last, 4) || !c.OutOfOrder(last-mostAccepted+1, 4) || c.OutOfOrder(last, 5) {
		t.Error("the last keys are not known as they were accepted")
	}
	if n := len(c.accepted) + len(c.old); n > 2*mostAccepted {
		t.Errorf("%d keys are remembered", n)
	}
}

// What tail scans have returned has no gaps but those of ordinals that they did not return, in whatever order they did.
func TestRuns(t *testing.T) {
	for range 100 {
		var r runs
		missing := 1 + rand.Int64N(38)
		for _, n := range rand.Perm(40) {
			if int64(n) != missing {
				r.add(int64(n))
				r.add(int64(n))
			}
		}
		if len(r) > 2 || r.gap(-1) != missing || r.gap(missing) != 40 || r.gap(50) != 50 {
			t.Fatalf("without %d: %v", missing, r)
		}
	}
}

// With many gaps the first runs are forgotten, and a read begins at the low watermark.
func TestTooManyRuns(t *testing.T) {
	var r runs
	r.add(math.MaxInt64)
	r.add(math.MinInt64)
	for n := range int64(1000) {
		r.add(10 * n)
	}
	r.add(5)
	if len(r) != mostRuns || r.gap(0) != 0 || r.gap(9989) != 9991 {
		t.Errorf("%d runs: %v", len(r), r)
	}
}

// A recent read begins at the first gap after the low watermark. It still goes back to rows that were left out, and before the end of
// a long transaction.
func TestReadBeginsAtTheFirstGap(t *testing.T) {
	c := New()
	now := time.Now()
	c.Mark(now, 100)
	c.Date(&outbox.Snapshot{Unassigned: 7})
	for _, ordinal := range []int64{99, 100, 101, 102, 104} {
		c.Read(ordinal)
	}
	c.Ended(now.Add(outbox.Late))
	c.Returned()
	begins := func(want int64) {
		t.Helper()
		var q outbox.Query
		if !c.Recent(&q, false) || *q.Recent != want {
			t.Errorf("the next tail scan begins at %d, want %d", *q.Recent, want)
		}
	}
	begins(100) // nothing waits
	c.Waits(now.Add(time.Second))
	begins(103)
	c.Read(103)
	begins(105)
	c.LeaveOut(1, 101, false)
	for range 2 {
		begins(101)
		c.TakeLeftOut() // but that tail scan does not reach its end
	}
	begins(101)
	c.Returned()
	begins(105)
	c.Reread()
	begins(100)
	c.Opened(outbox.Snapshot{Oldest: 5, Next: 9, Unassigned: 9, Running: []uint32{5}})
	if c.MayTake(&outbox.Snapshot{Oldest: 9, Next: 9, Unassigned: 9}) {
		t.Fatal("a transaction from before the low watermark ended, and the page may be taken")
	}
	var q outbox.Query
	if c.Recent(&q, false) {
		t.Errorf("the next tail scan begins at %d, want the very beginning", *q.Recent)
	}
}

// A catch-up scan that begins during a tail scan of several pages finds out that a long transaction has ended. The end of that tail scan,
// which began too late to bring the transaction's rows, does not change that the next one begins further back.
func TestLongTransactionThatEndsDuringATailScan(t *testing.T) {
	c, now := New(), time.Now()
	running := outbox.Snapshot{Oldest: 5, Next: 7, Running: []uint32{5}, Unassigned: 7}
	c.Mark(now, 100)
	c.Date(&running)
	c.Ended(now.Add(outbox.Late))
	var q outbox.Query
	if !c.Recent(&q, true) || !c.MayTake(&running) {
		t.Fatal("the tail scan does not begin")
	}
	c.Opened(running)
	if c.MayScan(&outbox.Snapshot{Oldest: 8, Next: 8, Unassigned: 8}) || !c.Lowered() {
		t.Fatal("the catch-up scan is made")
	}
	c.Ended(now.Add(outbox.Late + time.Second)) // and the tail scan has reached its end
	if !c.Lowered() {
		t.Error("other reads go before the tail scan that brings the transaction's rows")
	}
}
