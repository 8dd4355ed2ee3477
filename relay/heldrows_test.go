package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// Where each tail scan begins at the very beginning, rows that wait there are not read again each time: other rows do not wait for
// that. When the trouble is over, they flow at once.
func TestRowsThatWaitAreNotReadAtEachPoll(t *testing.T) {
	for name, shape := range map[string]func(*simTable){
		"larger priorities first":        func(s *simTable) { s.ranked = true },
		"an order that does not grow":    func(s *simTable) { s.ordinal = false },
		"priorities, an index of orders": func(s *simTable) { s.ranked, s.orderIndexed = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = dispatch.Limits{Batch: 100, Rows: 400, Bytes: 1 << 20}
				shape(s.table)
				s.table.perRow = 10 * time.Microsecond
				s.Remove("gone")
				const held, others = 5000, 500
				for i := range held {
					s.table.insert(int64(i+1), fmt.Sprintf("held%04d-0", i), fmt.Sprint("held", i), "gone")
				}
				defer s.start()()
				time.Sleep(20 * time.Second) // all of them are known
				before := s.table.returnedCount()
				for i := range others {
					s.table.insert(int64(held+i+1), fmt.Sprintf("other%04d-0", i), fmt.Sprint("other", i), "t")
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(time.Second)
				if got := len(s.Received("t")); got != others {
					t.Errorf("%d of %d other rows were relayed", got, others)
				}
				returned := s.table.returnedCount() - before
				if scans := 11 * int(time.Second) / int(5*time.Second); returned > (scans+2)*held+10*others {
					t.Errorf("%d rows were read while %d came", returned, others)
				}
				s.Create("gone")
				s.table.drained(t, 5*time.Second)
			})
		})
	}
}

// The read that is to bring the rows of keys that waited fails once. A row that is inserted then must not go before them.
func TestReadThatBringsRowsThatWaitedFails(t *testing.T) {
	for name, shape := range map[string]func(*simTable){
		"ranked": func(s *simTable) { s.ranked = true }, "no ordinal": func(s *simTable) { s.ordinal = false },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = dispatch.Limits{Batch: 100, Rows: 400, Bytes: 1 << 20}
				shape(s.table)
				s.Remove("gone")
				for i := range 5 {
					s.table.insert(int64(i+1), fmt.Sprintf("k-%d", i), "k", "gone")
				}
				defer s.start()()
				time.Sleep(7 * time.Second)
				s.Create("gone")
				for len(s.All()) == 0 {
					time.Sleep(100 * time.Microsecond)
				}
				s.table.setDown(true) // the head is accepted; the database fails for a moment
				time.Sleep(300 * time.Millisecond)
				s.table.insert(10, "k-9", "k", "gone")
				s.table.setDown(false)
				s.table.drained(t, time.Minute)
				checkOrder(t, s.All())
			})
		})
	}
}
