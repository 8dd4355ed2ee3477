package relay

import (
	"fmt"
	"math"
	"testing"
	"time"
)

const reconcileEvery = 5 * time.Second // as in package feed

// When the values of the order column start again from the beginning, rows are soon read at once again, and not only by
// the reconciliation scan.
func TestOrderBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, ordinals := range map[string]struct{ before, after int64 }{
		"sequence reset":    {1_000_000, 1},
		"one far too large": {1 << 60, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				n := s.fill(10, 100, "t")
				stop := s.start()
				defer stop()
				s.table.drained(t, 10*time.Second)
				s.table.insert(ordinals.before, "far", "", "t")
				s.table.drained(t, time.Minute)
				time.Sleep(2 * reconcileEvery)
				insert := func(i int) string {
					id := fmt.Sprintf("restarted-%d", i)
					s.table.insert(ordinals.after+int64(i), id, "restarted", "t")
					n++
					return id
				}
				insert(0)
				s.table.drained(t, 2*reconcileEvery)
				for i := range 20 {
					time.Sleep(time.Duration(i) * time.Second) // with reconciliation scans in between, which find nothing
					id := insert(1 + i)
					time.Sleep(300 * time.Millisecond)
					if !s.table.row(id).relayed {
						t.Errorf("%s is not relayed at once", id)
					}
				}
				checkOrder(t, s.Received("t"))
				if got := len(s.All()); got != n+1 {
					t.Errorf("%d deliveries of %d rows", got, n+1)
				}
			})
		})
	}
}

// A row with the largest order value there is ('infinity') waits behind a refused row of its key. It goes when that one
// is done.
func TestRowWithTheLargestOrderValue(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		stop := s.start()
		defer stop()
		s.Refuse("first", 2)
		s.table.insert(1, "first", "k", "t")
		s.table.insert(math.MaxInt64, "last", "k", "t")
		s.table.drained(t, 5*time.Minute)
	})
}
