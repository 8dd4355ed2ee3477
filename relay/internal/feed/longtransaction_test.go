package feed

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A transaction that was open for a long time ends after a page was read and before the page is taken. The page is not
// taken, since it may lack that transaction's rows and contain younger rows of their keys.
func TestPageOfALongTransactionsEndIsNotTaken(t *testing.T) {
	for name, ends := range map[string]bool{"goes on": false, "ends": true} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			f := New(&order{}, 100, 100, 50*time.Millisecond, 0, now)
			running := outbox.Snapshot{Oldest: 5, Next: 7, Running: []uint32{5}, Unassigned: 7}
			f.Late.Mark(now, 100) // transaction 5 began before this and has ended after it
			f.Late.Date(&running)
			f.Late.Opened(running)
			f.Late.Ended(now.Add(outbox.Late))
			f.caughtUp = true
			f.Nudge()
			if _, kind, ok := f.Next(now, 100, 1<<20); !ok || kind != Tail {
				t.Fatalf("the next read is of kind %d: %v", kind, ok)
			}
			page := outbox.Page{Snapshot: running, Ended: running}
			if ends {
				page.Ended = outbox.Snapshot{Oldest: 7, Next: 7, Unassigned: 7}
			}
			if taken := f.Read(Tail, page, now, now); taken == ends {
				t.Errorf("the page is taken: %v", taken)
			}
		})
	}
}
