package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// With one row in a page, a backlog takes thousands of reads. When the trouble of a few keys with many rows is over,
// their rows take a few reads each, although each row that fails makes its key wait for another catch-up scan, and
// although the rows of one key begin where those of the other end.
func TestRowsThatWaitedFlowInSmallPages(t *testing.T) {
	t.Parallel()
	for name, index := range map[string]bool{"no index by key": false, "an index by key": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits.Batch, s.limits.Rows = 1, 120
				s.table.took, s.table.byKey = time.Millisecond, index
				s.Remove("t")
				const early, late = 1000, 50
				for i := range early + late {
					key := "early"
					if i >= early {
						key = "late"
					}
					id := fmt.Sprint(key, "-", i)
					if i%43 == 42 {
						s.Answer(id, publisher.PermanentError("no", "no"))
					}
					s.table.insert(int64(i+1), id, key, "t")
				}
				defer s.start()()
				time.Sleep(10 * time.Second)
				before := s.table.readCount()
				s.Create("t")
				s.table.drained(t, 10*time.Minute)
				if reads := s.table.readCount() - before; reads > 3*(early+late) {
					t.Errorf("%d reads for %d rows", reads, early+late)
				}
				checkOrder(t, s.All())
			})
		})
	}
}

// When a topic comes back, the rows without a key that waited for it take a read each, although there are many rows of
// another topic that is missing between them, also if a key waits for the same scan.
func TestRowsWithoutAKeyFlowInSmallPages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ index, waits bool }{
		"no index by key": {false, true}, "an index by key": {true, true}, "no key": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits.Batch, s.limits.Rows = 1, 120
				s.table.took, s.table.byKey = time.Millisecond, test.index
				s.Remove("t")
				s.Remove("gone")
				const rows, apart = 2000, 40
				others := rows
				for i := range rows {
					switch key := fmt.Sprint("key-", i%7); {
					case i%apart == 0:
						s.table.insert(int64(i+1), fmt.Sprint("row-", i), "", "t")
						others--
					case i%apart == 1 && test.waits:
						s.table.insert(int64(i+1), fmt.Sprint("back-", i), "back", "t")
						others--
					default:
						s.table.insert(int64(i+1), fmt.Sprint(key, "-", i), key, "gone")
					}
				}
				defer s.start()()
				time.Sleep(20 * time.Second)
				before := s.table.readCount()
				s.Create("t")
				for deadline := time.Now().Add(time.Minute); len(s.table.pending()) > others; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%d rows of the topic wait", len(s.table.pending())-others)
					}
				}
				if reads := s.table.readCount() - before; reads > rows/4 {
					t.Errorf("%d reads for %d rows", reads, rows-others)
				}
				checkOrder(t, s.All())
			})
		})
	}
}
