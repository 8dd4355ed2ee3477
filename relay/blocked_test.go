package relay

import (
	"fmt"
	"testing"
	"time"
)

// When a topic is back, all that waited for it goes on at once and not key by key.
func TestTopicThatIsBackReleasesItsKeys(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(300, 2, "t")
		s.limits.Rows = 1000
		s.Remove("t")
		s.Delay(20 * time.Millisecond)
		stop := s.start()
		defer stop()
		time.Sleep(5 * time.Second)
		s.Create("t")
		s.table.drained(t, 3*time.Second)
		checkOrder(t, s.All())
		if got := len(s.All()); got != n {
			t.Errorf("%d deliveries of %d rows", got, n)
		}
	})
}

// Where the table does not count tries, those of a key's head are not counted against the rows behind it.
func TestRefusalsAreTheHeadsAlone(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.table.keepsAttempts = false
		for i := range 3 {
			s.table.insert(int64(i+1), fmt.Sprintf("k-%d", i), "k", "t")
		}
		s.Refuse("k-0", 4)
		s.Refuse("k-1", 3)
		s.Refuse("k-2", 9)
		stop := s.start()
		defer stop()
		s.table.drained(t, 10*time.Minute)
		// Each is also given to the broker behind the rows before it, which is not attempted.
		for id, tries := range map[string]int{"k-0": 5, "k-1": 4 + 4, "k-2": 4 + 3 + 5} {
			if r := s.table.row(id); s.Tries(id) != tries || r.failed != (id == "k-2") {
				t.Errorf("%s: %d tries, want %d; failed %v", id, s.Tries(id), tries, r.failed)
			}
		}
	})
}

// A row that commits late and goes before one that was refused does not wait for that one's backoff, also
// when it comes while the refusal is being written.
func TestOlderRowDoesNotWaitForTheYounger(t *testing.T) {
	for name, during := range map[string]bool{"while it waits": false, "while it is written": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.destinations[0].BackoffMin, s.destinations[0].BackoffMax = 24*time.Hour, 48*time.Hour
				s.Refuse("k-5", 1)
				s.table.insert(5, "k-5", "k", "t")
				release := func() {}
				if during {
					release = s.table.hold()
				}
				stop := s.start()
				defer stop()
				s.AwaitTries(t, "k-5", 1)
				time.Sleep(100 * time.Millisecond)
				s.table.insert(4, "k-4", "k", "t")
				time.Sleep(time.Second)
				release()
				time.Sleep(time.Second)
				if r := s.table.row("k-4"); !r.relayed {
					t.Error("the older row waits")
				}
				if s.Tries("k-5") != 1 {
					t.Errorf("%d tries of the younger", s.Tries("k-5"))
				}
			})
		})
	}
}
