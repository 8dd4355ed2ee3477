package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// While a long backlog keeps the tail scan reading continuously, a refused row is tried again when its backoff is over, and a scan
// brings the rows after it that were passed over.
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

// While a catch-up scan brings very many rows, with pages that are of use from the first row to the last, other rows flow.
func TestCatchUpScanLeavesTimeToOtherRows(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.table.took, s.limits.Batch = 10*time.Millisecond, 20
		s.Remove("missing")
		const rows = 4000
		for i := range int64(rows) {
			s.table.insert(i+1, fmt.Sprint("k-", i), "k", "missing")
		}
		defer s.start()()
		time.Sleep(10 * time.Second)
		s.Create("missing")
		for len(s.table.pending()) == rows {
			time.Sleep(time.Millisecond)
		}
		s.table.insert(rows+1, "other-0", "other", "t")
		for !s.table.row("other-0").relayed {
			if time.Sleep(time.Millisecond); len(s.table.pending()) < rows/2 {
				t.Fatal("half of the rows that waited are relayed, and the other row is not")
			}
		}
		s.table.drained(t, time.Minute)
		checkOrder(t, s.All())
	})
}

// After a page of a scan that brings little, other reads get time in proportion to the time that the page took in vain.
func TestScanThatBringsLittleRests(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.start()()
		reads, now := s.loop.reads, time.Now()
		d := dispatch.New(reads.dispatch.Setup)
		reads.dispatch = d
		d.Follow(owner.All(simShards), owner.Set{}, now)
		d.Begin()
		rows := func(key string, ordinals ...int64) (rows []outbox.Row) {
			for _, n := range ordinals {
				id := fmt.Sprint(key, n)
				rows = append(rows,
					outbox.Row{Message: publisher.Message{ID: id, Topic: "t", Key: []byte(key)}, Position: outbox.At(n, id), Attempt: 1})
			}
			return rows
		}
		d.Take(rows("closed", 1, 2, 3), dispatch.FromFeed, now)
		d.Hand(now, func(lane int, rows []*dispatch.Row) {
			errs := []error{publisher.RefusedError("no", "no"), publisher.ErrNotAttempted, publisher.ErrNotAttempted}
			d.Answer(lane, rows, errs, now)
		})
		d.Begin()
		d.Scanning()
		const took = 100 * time.Millisecond
		page := outbox.Page{Rows: append(rows("closed", 1, 2, 3), rows("open", 4)...), More: true}
		reads.takeScan(read{kind: readScan, page: page, started: now.Add(-took), ended: now})
		if rest := reads.patience[readScan].rest.Sub(now); d.Snapshot().InFlight == 0 || rest < took*3/4 || rest > 5*took {
			t.Errorf("three of four rows are of no use, and after %v the scans rest for %v", took, rest)
		}
	})
}
