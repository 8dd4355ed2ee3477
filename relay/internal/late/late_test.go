package late

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A tail scan left out two rows of one key. The next tail scan begins before both. The key's younger rows wait for that tail scan, and
// no longer.
func TestNextTailScanBeginsBeforeWhatWasLeftOut(t *testing.T) {
	c := New()
	now := time.Now()
	c.Mark(now, 100)
	c.Date(&outbox.Snapshot{Unassigned: 7})
	c.Ended(now.Add(outbox.Late))
	c.LeaveOut(1, 50, false)
	c.LeaveOut(1, 60, false)
	for ordinal, want := range map[int64]bool{49: false, 50: true, 70: true} {
		if first, overtakes := c.Overtakes(1, ordinal, false); overtakes != want || overtakes && first != 50 {
			t.Errorf("%d overtakes %d: %v", ordinal, first, overtakes)
		}
	}
	if _, overtakes := c.Overtakes(2, 70, false); overtakes {
		t.Error("another key waits, too")
	}
	var q outbox.Query
	if !c.Recent(&q, false) || *q.Recent != 50 || !q.Horizon {
		t.Errorf("the next tail scan reads %+v", q)
	}
	c.TakeLeftOut()
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
	if first, overtakes := c.Overtakes(1<<50, 10, false); !overtakes || first != 5 {
		t.Errorf("a key that is not remembered overtakes %d: %v", first, overtakes)
	}
	if _, overtakes := c.Overtakes(1<<50, 4, false); overtakes {
		t.Error("a row before all of them waits")
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
