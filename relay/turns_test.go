package relay

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// While a long backlog keeps the walk reading all the time, a refused row is tried again when its backoff is over, and a scan brings
// what was passed over behind it.
func TestBacklogLeavesTimeToKeysThatWait(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.table.took = 10 * time.Millisecond
		s.destinations[0].BackoffMin = time.Millisecond
		s.table.insert(-2, "bad-0", "bad", "t")
		s.table.insert(-1, "bad-1", "bad", "t")
		s.Refuse("bad-0", 1)
		n := s.fill(50, 200, "t")
		stop := s.start()
		defer stop()
		for !s.table.row("bad-1").relayed {
			if time.Sleep(time.Millisecond); len(s.table.pending()) < n/2 {
				t.Fatalf("half of the backlog is relayed, and of the refused key: %q", relayedOf(s, "bad"))
			}
		}
		s.table.drained(t, time.Minute)
		checkOrder(t, s.All())
	})
}

// After a page of a scan that brings little, the reader is left to others in proportion to what the page took in vain.
func TestScanThatBringsLittleRests(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(rowsOf("closed", "t", 1, 2, 3), fromWalk, now)
	published(t, d, errRefused, "closed-1")
	d.begin()
	e := &engine{engines: &engines{metrics: d.metrics}, dispatch: d, scans: scan{active: true}}
	const took = 100 * time.Millisecond
	page := outbox.Page{Rows: append(rowsOf("closed", "t", 1, 2, 3), rowsOf("open", "t", 4)...), More: true}
	e.takeScan(read{kind: readScan, page: page, started: now.Add(-took), ended: now})
	if rest := e.scans.rest.Sub(now); len(d.lanes[0].rows) == 0 || rest < took*3/4 || rest > 5*took {
		t.Errorf("three of four rows are of no use, and after %v the scans rest for %v", took, rest)
	}
}
