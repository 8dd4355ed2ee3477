package relay

import (
	"testing"
	"time"
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
