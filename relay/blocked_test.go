package relay

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// When a topic is available again, all rows that waited for it continue at once and not key by key.
func TestTopicThatIsBackReleasesItsKeys(t *testing.T) {
	t.Parallel()
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

// Where the table does not count attempts, the attempts of a key's head are not counted against the later rows of the
// key.
func TestRefusalsAreTheHeadsAlone(t *testing.T) {
	t.Parallel()
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
		// Each row may also be passed to the broker together with the rows before it, without being attempted.
		for id, tries := range map[string]struct{ least, most int }{"k-0": {5, 5}, "k-1": {4, 4 + 4}, "k-2": {5, 4 + 3 + 5}} {
			if r := s.table.row(id); s.Tries(id) < tries.least || s.Tries(id) > tries.most || r.failed != (id == "k-2") {
				t.Errorf("%s: %d tries, want %d to %d; failed %v", id, s.Tries(id), tries.least, tries.most, r.failed)
			}
		}
	})
}

// A backoff that began before a restart ends at the same time as it would have without the restart.
func TestBackoffOutlivesARestart(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.destinations[0].BackoffMin, s.destinations[0].BackoffMax = time.Hour, time.Hour
		s.Refuse("k-0", 1)
		s.table.insert(1, "k-0", "k", "t")
		s.table.insert(2, "k-1", "k", "t")
		stop := s.start()
		s.AwaitTries(t, "k-0", 1)
		time.Sleep(time.Second)
		stop()
		due := s.table.row("k-0").updated.Add(retry.Backoff(time.Hour, time.Hour, "k-0", 2))
		stop = s.start()
		defer stop()
		time.Sleep(time.Until(due) - time.Second)
		if s.Tries("k-0") != 1 || len(s.All()) != 0 {
			t.Errorf("tried before its time, or passed: %d deliveries", len(s.All()))
		}
		s.table.drained(t, 2*time.Second)
		checkOrder(t, s.All())
	})
}

// When the owner's trust in its locks ends, the calls on the wire are abandoned at that moment and not at the publish
// timeout.
func TestTrustEndsCalls(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		until := time.Now().Add(time.Second)
		s.owner.trusted = func() time.Time { return until }
		s.fill(1, 5, "t")
		s.Hold()
		stop := s.start()
		defer stop()
		s.AwaitHeld(t, 1)
		time.Sleep(2 * time.Second)
		s.Release()
		time.Sleep(2 * time.Second)
		if got := len(s.All()); got != 0 {
			t.Errorf("%d messages arrived after the trust had ended", got)
		}
	})
}

// A row that cannot be marked as failed holds its key, and is tried no more often than the longest backoff allows.
func TestRowThatCannotFailHoldsItsKey(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.table.keepsFailures = false
		s.fill(5, 10, "t")
		s.Poison("k2-3")
		stop := s.start()
		defer stop()
		time.Sleep(10 * time.Minute)
		if pending := s.table.pending(); len(pending) != 7 {
			t.Errorf("%d rows pending, want the key's last 7: %.200q", len(pending), pending)
		}
		if tries := s.Tries("k2-3"); tries < 5 || tries > 12 {
			t.Errorf("%d tries in 10 minutes", tries)
		}
		s.Heal("k2-3")
		s.table.drained(t, 2*time.Minute)
		checkOrder(t, s.All())
	})
}

// As long as no row at all gets an answer, no row is blamed.
func TestSilentBrokerSpendsNothing(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(5, 4, "t")
		s.destinations[0].PublishTimeout = 100 * time.Millisecond
		s.Hold()
		stop := s.start()
		defer stop()
		time.Sleep(time.Minute)
		s.Release()
		s.table.drained(t, 5*time.Second)
		for id := range s.table.rows {
			if r := s.table.row(id); r.attempt != 1 || r.lastError != "" {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if got := len(s.All()); got != n {
			t.Errorf("%d deliveries of %d rows", got, n)
		}
		checkOrder(t, s.All())
	})
}

// More keys wait than are remembered: the rows of other keys flow, and the rows of the missing topic follow in order
// once it exists.
func TestMoreBlockedKeysThanRemembered(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits.Keys = 10
		n := s.fill(500, 4, "missing")
		s.Remove("missing")
		for i := range 200 {
			s.table.insert(int64(n+1+i), "free"+strconv.Itoa(i), "", "t")
		}
		stop := s.start()
		defer stop()
		time.Sleep(5 * time.Second)
		if got := len(s.Received("t")); got != 200 {
			t.Errorf("%d of 200 rows flow beside the missing topic", got)
		}
		s.Create("missing")
		s.table.drained(t, 5*time.Second)
		checkOrder(t, s.All())
		if got := len(s.All()); got != n+200 {
			t.Errorf("%d deliveries of %d rows", got, n+200)
		}
	})
}
