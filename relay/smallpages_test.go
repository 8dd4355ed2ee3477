package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// With one row in a page, a backlog takes thousands of reads. When the trouble of a few keys with many rows is over, their rows
// take a few reads each, although each row that fails makes its key wait for another catch-up scan, and although the rows of one
// key begin where those of the other end.
func TestRowsThatWaitedFlowInSmallPages(t *testing.T) {
	for name, index := range map[string]bool{"no index by key": false, "an index by key": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits.Batch, s.limits.Rows = 1, 120
				s.table.took, s.table.byKey, s.table.filters = time.Millisecond, index, true
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

// Where the database would take long to find a page's rows among those of other keys, it is not made to, and the rows flow as
// well.
func TestRowsAreNotLookedForAtAnyPrice(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.limits.Batch, s.limits.Rows = 10, 120
		s.table.took, s.table.perRow, s.table.filters = time.Millisecond, time.Millisecond, true
		s.Remove("t")
		const rows, apart = 2000, 500
		for i := range rows {
			key := "often"
			if i%apart == apart-1 {
				key = "seldom"
			}
			id := fmt.Sprint(key, "-", i)
			if key == "often" && i < apart && i%100 == 50 {
				s.Answer(id, publisher.PermanentError("no", "no"))
			}
			s.table.insert(int64(i+1), id, key, "t")
		}
		defer s.start()()
		time.Sleep(10 * time.Second)
		s.Create("t")
		s.table.drained(t, time.Minute)
		if n := s.table.outOfTime.Load(); n != 1 {
			t.Errorf("%d reads ran out of time", n)
		}
		checkOrder(t, s.All())
	})
}
