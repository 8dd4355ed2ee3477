package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// lateness returns how long after a time a row was marked.
func lateness(s *sim, id string, due time.Time) time.Duration { return s.table.row(id).marked.Sub(due) }

// newDelayed makes a simulation of a table with an index of due times.
func newDelayed(s *sim) {
	s.table.delays, s.table.readsDue = true, true
}

// Rows that become due at any time are relayed at that time, beside others that are due at once and many that are
// scheduled for later. Reads in table order do not return the scheduled rows.
func TestRowsAreRelayedWhenTheyBecomeDue(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, 10 * time.Millisecond, time.Millisecond} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				newDelayed(s)
				r := rand.New(rand.NewPCG(1, 2))
				due := map[string]time.Time{}
				ordinal := int64(0)
				insert := func(after time.Duration) {
					ordinal++
					id := fmt.Sprint("row", ordinal)
					s.table.insertLater(ordinal, id, fmt.Sprint("k", ordinal%7), "t", after)
					due[id] = time.Now().Add(after)
				}
				const rows = 60
				for range rows {
					insert(time.Duration(r.Int64N(int64(rows * every))))
				}
				for range 1000 {
					ordinal++
					s.table.insertLater(ordinal, fmt.Sprint("later", ordinal), "k1", "t", time.Hour)
				}
				defer s.start()()
				for range rows {
					time.Sleep(every)
					ordinal++
					s.table.insert(ordinal, fmt.Sprint("now", ordinal), "k1", "t")
					insert(time.Duration(r.Int64N(int64(10 * every))))
				}
				time.Sleep(10*every + time.Second)
				if left := len(s.table.pending()); left != 1000 {
					t.Errorf("%d rows are pending, want those that are not due", left)
				}
				for id, at := range due {
					if late := lateness(s, id, at); late < 0 || late > 300*time.Millisecond {
						t.Errorf("%s was relayed %v after it was due", id, late)
					}
				}
			})
		})
	}
}

// An idle owner sleeps until the next row becomes due, and notices rows that are inserted in the meantime and become
// due earlier.
func TestIdleOwnerSleepsUntilARowBecomesDue(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		newDelayed(s)
		s.doorbell, s.interval = newSimBell(), 0
		s.table.insertLater(1, "far", "k", "t", 10*time.Minute+123*time.Millisecond)
		at := time.Now().Add(10*time.Minute + 123*time.Millisecond)
		defer s.start()()
		time.Sleep(time.Minute)
		reads := s.table.readCount()
		time.Sleep(time.Minute)
		if now := s.table.readCount(); now-reads > 140 {
			t.Errorf("%d reads in a minute in which nothing is due", now-reads)
		}
		s.table.insertLater(2, "near", "k", "t", 300*time.Millisecond)
		near := time.Now().Add(300 * time.Millisecond)
		s.config.wake(measure.SourceListen, false)
		time.Sleep(time.Until(at) + time.Second)
		for id, at := range map[string]time.Time{"near": near, "far": at} {
			if late := lateness(s, id, at); late < 0 || late > 50*time.Millisecond {
				t.Errorf("%s was relayed %v after it was due", id, late)
			}
		}
	})
}

// Rows with available_at wait only for themselves. A row that is refused, or whose topic is held, delays no other row
// of its key. All of them are published when the trouble is over.
func TestDelayedRowsWaitForThemselvesAlone(t *testing.T) {
	t.Parallel()
	for _, rows := range []int64{1, 100, 3000} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				newDelayed(s)
				s.limits.Keys = 200
				s.Remove("missing")
				s.Refuse("refused", 2)
				s.table.insertLater(1, "refused", "k", "t", time.Second)
				for n := range rows {
					s.table.insertLater(10+n, fmt.Sprint("held", n), "k", "missing", 2*time.Second)
				}
				for n := range rows {
					s.table.insertLater(10_000+n, fmt.Sprint("later", n), "k", "t", 3*time.Second)
				}
				s.table.insert(20_000, "now", "k", "t")
				stop := s.start()
				time.Sleep(30 * time.Second)
				if left := len(s.table.pending()); left != int(rows) {
					t.Errorf("%d rows are pending, want the %d for the missing topic", left, rows)
				}
				s.Create("missing")
				s.table.drained(t, 3*time.Minute)
				time.Sleep(30 * time.Second)
				stop()
				if left := s.loop.engine.Leftover(); left != "" {
					t.Errorf("still remembered: %s", left)
				}
				if _, duplicates := firsts(s.All()); duplicates > 0 {
					t.Errorf("%d rows were published twice", duplicates)
				}
			})
		})
	}
}
