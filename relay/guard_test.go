package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// newRanked makes a simulation of a table with priorities, and a
// relay that has room for 40 rows each 100 ms.
func newRanked(s *sim) {
	s.table.ranked = true
	s.limits.Batch, s.limits.Rows = 20, 40
	s.Delay(100 * time.Millisecond)
}

// Most of the rows that are relayed are those with large priorities.
func TestLargePrioritiesGoFirst(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		newRanked(s)
		for n := range int64(1000) {
			s.table.insertRanked(n+1, fmt.Sprint("row", n), "", "t", n%2)
		}
		stop := s.start()
		s.table.drained(t, time.Minute)
		stop()
		first, _ := firsts(s.All())
		large := 0
		for _, m := range first[:500] {
			if s.table.row(m.ID).priority == 1 {
				large++
			}
		}
		if large < 375 {
			t.Errorf("%d of the first 500 rows have the large priority", large)
		}
	})
}

// Rows of a key with the same priority keep their order, whichever read takes them, and also when rows of the key are
// refused or held.
func TestEqualPrioritiesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		newRanked(s)
		s.interval = 10 * time.Millisecond
		s.Remove("missing")
		ordinal := int64(0)
		stop := s.start()
		for round := range 100 {
			for n := range 8 {
				ordinal++
				id, topic := fmt.Sprintf("row%06d", ordinal), "t"
				switch (round*8 + n) % 97 {
				case 0:
					s.Refuse(id, 1)
				case 1:
					topic = "missing"
				}
				s.table.insertRanked(ordinal, id, fmt.Sprint("k", ordinal%13), topic, ordinal%17%3)
			}
			if round == 60 {
				s.Create("missing")
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.table.drained(t, 5*time.Minute)
		stop()
		first, duplicates := firsts(s.All())
		if duplicates > 0 {
			t.Errorf("%d rows were published twice", duplicates)
		}
		if wrong := overtaken(s, first); wrong > 0 {
			t.Errorf("%d rows went before older ones of their key with the same priority", wrong)
		}
	})
}

// overtaken counts the messages that arrived before an older message of their key with the same priority.
func overtaken(s *sim, first []publisher.Message) (wrong int) {
	type order struct {
		key      string
		priority int64
	}
	last := map[order]int64{}
	for _, m := range first {
		r := s.table.row(m.ID)
		o := order{string(m.Key), r.priority}
		if r.ordinal < last[o] {
			wrong++
		}
		last[o] = max(last[o], r.ordinal)
	}
	return wrong
}

// A row that breaks each connection is also found where an older row of its key, with a smaller priority, waits for it.
func TestCulpritOfALargePriorityIsFoundOut(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		newRanked(s)
		s.table.insertRanked(1, "old", "k", "t", 0)
		s.table.insertRanked(2, "culprit", "k", "t", 5)
		s.table.insertRanked(3, "young", "k", "t", 0)
		s.Crash("culprit")
		defer s.start()()
		for n := range 300 {
			s.table.insertRanked(int64(10+n), fmt.Sprint("other", n), fmt.Sprint("other", n), "t", 0)
			time.Sleep(time.Second)
		}
		if !s.table.row("culprit").failed {
			t.Error("the row that breaks each connection did not fail")
		}
		if left := len(s.table.pending()); left > 0 {
			t.Errorf("%d rows wait", left)
		}
	})
}

// A row with a larger priority that is inserted during a long tail scan does not wait for its end.
func TestLargerPriorityDuringALongTailScan(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		newRanked(s)
		const rows = 1000
		for n := range int64(rows) {
			s.table.insertRanked(n+1, fmt.Sprint("row", n), fmt.Sprint("k", n%50), "t", 0)
		}
		defer s.start()()
		for len(s.table.pending()) == rows {
			time.Sleep(time.Millisecond)
		}
		s.table.insertRanked(rows+1, "larger", "larger", "t", 1)
		for !s.table.row("larger").relayed {
			if time.Sleep(time.Millisecond); len(s.table.pending()) < rows/2 {
				t.Fatal("half of the rows with the smaller priority are relayed, and the row with the larger one is not")
			}
		}
	})
}

// A row that is committed during a long tail scan, at a place that the tail scan has passed, precedes a younger row of
// its key with the same priority that was inserted after this commit. The same holds when held rows fill the first
// pages.
func TestLateCommitDuringATailScanByPriority(t *testing.T) {
	t.Parallel()
	const rows = 1000
	for _, held := range []int64{0, 300} {
		{
			t.Run(fmt.Sprintf("%d held", held), func(t *testing.T) {
				simulate(t, func(t *testing.T, s *sim) {
					newRanked(s)
					s.Remove("missing")
					for n := range held {
						s.table.insertRanked(n+1, fmt.Sprint("held", n), fmt.Sprint("h", n), "missing", 0)
					}
					for n := range int64(rows) {
						if n%10 != 0 { // leaves a place for a row that commits late
							s.table.insertRanked(held+n+1, fmt.Sprint("row", n), fmt.Sprint("k", n%50), "t", 0)
						}
					}
					stop := s.start()
					young := held + rows
					time.Sleep(1500 * time.Millisecond) // more than a third of the rows are relayed
					for n := int64(0); n < rows/3; n += 10 {
						young++
						key := fmt.Sprint("late", n)
						s.table.insertRanked(held+n+1, fmt.Sprint("old", n), key, "t", 0)
						s.table.insertRanked(young, fmt.Sprint("young", n), key, "t", 0)
					}
					s.Create("missing")
					s.table.drained(t, time.Minute)
					stop()
					first, _ := firsts(s.All())
					if wrong := overtaken(s, first); wrong > 0 {
						t.Errorf("%d rows went before older ones of their key with the same priority", wrong)
					}
				})
			})
		}
	}
}
