package relay

import (
	"slices"
	"testing"
	"time"
)

// insertTied lets one transaction insert two rows of a key, the first with the order value 7. The topic of the second
// is gone, which another key has found out.
func (s *sim) insertTied(second int64) {
	s.Remove("gone")
	s.table.insert(1, "x-1", "x", "gone")
	time.Sleep(time.Second)
	s.table.commit(s.table.begin(), func() {
		s.table.add(7, "k-a", "k", "t")
		s.table.add(second, "k-b", "k", "gone")
	})
}

// One transaction inserts two rows of a key, and all its rows have the same order value, as with now(). The second one
// has to wait. The first goes at once, and before the second.
func TestRowsOfATransactionKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for _, second := range []int64{8, 7} {
		simulate(t, func(t *testing.T, s *sim) {
			defer s.start()()
			s.insertTied(second)
			time.Sleep(5 * time.Second)
			if !s.table.row("k-a").relayed {
				t.Errorf("k-a waits for the topic of k-b (order values 7 and %d)", second)
			}
			s.Create("gone")
			s.table.drained(t, time.Minute)
			if got := relayedOf(s, "k"); !slices.Equal(got, []string{"k-a", "k-b"}) {
				t.Errorf("relayed as %v", got)
			}
		})
	}
}

// The head of the second row's key comes to try the hold. The first row goes before it all the same.
func TestFirstRowOfATransactionGoesBeforeTheHeadThatTries(t *testing.T) {
	t.Parallel()
	for _, second := range []int64{8, 7} {
		simulate(t, func(t *testing.T, s *sim) {
			defer s.start()()
			s.insertTied(second)
			time.Sleep(100 * time.Millisecond)
			s.table.mu.Lock()
			s.table.rows["x-1"].relayed = true // by hand
			s.table.close()
			s.table.mu.Unlock()
			time.Sleep(30 * time.Second)
			s.Create("gone")
			s.table.drained(t, time.Minute)
			if got := relayedOf(s, "k"); !slices.Equal(got, []string{"k-a", "k-b"}) {
				t.Errorf("relayed as %v", got)
			}
		})
	}
}
