package relay

import (
	"testing"
	"time"
)

// A row that the database refuses to mark, because of a trigger or a constraint, is not published again and stops no
// other row.
func TestRowThatCannotBeMarked(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.table.insert(0, "first-0", "first", "t")
		stop := s.start()
		defer stop()
		s.table.drained(t, time.Second)
		s.table.guard("k3-5")
		n := s.fill(20, 50, "t") + 1
		time.Sleep(10 * time.Second)
		if pending := s.table.pending(); len(pending) != 1 {
			t.Errorf("%d rows pending: %.200q", len(pending), pending)
		}
		s.table.guard("")
		s.table.drained(t, 15*time.Second)
		if got := len(s.All()); got != n {
			t.Errorf("%d deliveries of %d rows", got, n)
		}
		checkOrder(t, s.All())
	})
}

// A refusal that the database does not store keeps its key waiting, and no other key.
func TestRefusalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.fill(20, 50, "t")
		s.table.guard("k3-5")
		s.Poison("k3-5")
		s.Poison("k4-5")
		stop := s.start()
		defer stop()
		time.Sleep(30 * time.Second)
		if pending := s.table.pending(); len(pending) != 45 {
			t.Errorf("%d rows pending: %.200q", len(pending), pending)
		}
		if tries := s.Tries("k3-5"); tries > 2 {
			t.Errorf("%d tries in 30 s", tries)
		}
		if !s.table.row("k4-5").failed {
			t.Error("the row beside it did not fail")
		}
		s.table.guard("")
		s.table.drained(t, 2*time.Minute)
		checkOrder(t, s.All())
	})
}
