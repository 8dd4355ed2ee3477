package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// If the failure could not be written because the row has changed, the row goes first again. If the write takes long,
// the queued rows of the key take no room from others.
func TestFailureThatIsNotWritten(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits.Rows, s.limits.Batch = 40, 10
		s.Answer("k-0", publisher.PermanentError("no", "no"))
		for i := range 100 {
			s.table.insert(int64(i+1), fmt.Sprint("k-", i), "k", "t")
		}
		for i := range 10 {
			s.table.insert(int64(i+101), fmt.Sprintf("other%d-0", i), fmt.Sprint("other", i), "t")
		}
		release := s.table.hold()
		defer s.start()()
		time.Sleep(5 * time.Second)
		if got := len(s.All()); got != 10 {
			t.Errorf("%d of 10 rows of other keys are published", got)
		}
		s.table.mu.Lock()
		s.table.rows["k-0"].attempt = 3
		s.table.mu.Unlock()
		release()
		s.table.drained(t, time.Minute)
		if s.Tries("k-0") != 2 || len(s.All()) != 110 {
			t.Errorf("the changed row was tried %d times, and %d rows were published", s.Tries("k-0"), len(s.All()))
		}
		checkOrder(t, s.All())
	})
}

// besideFailing runs a test with a number of rows of one key that all fail for good, in table order and where larger
// priorities go first.
func besideFailing(t *testing.T, batch, rows int, test func(t *testing.T, s *sim)) {
	for name, ranked := range map[string]bool{"in table order": false, "by priority": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: batch, Rows: 4096, Bytes: 64 << 20}
				s.table.ranked, s.table.took = ranked, time.Millisecond
				for i := range rows {
					id := fmt.Sprint("k-", i)
					s.Answer(id, publisher.PermanentError("no", "no"))
					s.table.insert(int64(i+1), id, "k", "t")
				}
				test(t, s)
			})
		})
	}
}

// Rows that fail one after the other take a write each, and no scan each, also if larger priorities go first.
func TestManyRowsOfAKeyThatFail(t *testing.T) {
	const rows = 1000
	besideFailing(t, 100, rows, func(t *testing.T, s *sim) {
		s.table.insert(rows+1, "good", "k", "t")
		defer s.start()()
		s.Await(t, 1)
		s.table.drained(t, time.Second)
		if reads := s.table.readCount(); reads > rows*5/4 {
			t.Errorf("%d reads for %d rows", reads, rows)
		}
	})
}

// Rows of one key that all fail for good stop only their own key.
func TestKeyWhoseRowsFailLeavesRoom(t *testing.T) {
	const bad, others = 20_000, 100
	besideFailing(t, 1000, bad, func(t *testing.T, s *sim) {
		s.Delay(2 * time.Millisecond)
		for i := range others {
			s.table.insert(int64(bad+i+1), fmt.Sprintf("other%d-0", i), fmt.Sprint("other", i), "t")
		}
		began := time.Now()
		defer s.start()()
		for time.Since(began) < 10*time.Minute && len(s.All()) < others {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("other keys waited %v for a key whose rows fail", took)
		}
	})
}
