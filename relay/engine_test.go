package relay

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// checkOrder fails unless the first deliveries of each key are in the order of their numbers (ids are
// key-number).
func checkOrder(t testing.TB, messages []publisher.Message) {
	t.Helper()
	for _, problem := range disorder(messages) {
		t.Error(problem)
	}
}

// disorder describes each place where the first deliveries of a key are out of order.
func disorder(messages []publisher.Message) (problems []string) {
	last := map[string]int{}
	first, _ := firsts(messages)
	for _, m := range first {
		if m.Key == nil {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(m.ID[len(m.Key)+1:], "%d", &n); err != nil {
			return append(problems, fmt.Sprintf("the id %q: %v", m.ID, err))
		}
		if before, ok := last[string(m.Key)]; ok && before > n {
			problems = append(problems, fmt.Sprintf("key %s: %d arrived after %d", m.Key, n, before))
		}
		last[string(m.Key)] = n
	}
	return problems
}

// fill inserts rows round robin over keys and returns the number of rows.
func (s *sim) fill(keys, each int, topic string) int {
	for i := range keys * each {
		key := "k" + strconv.Itoa(i%keys)
		s.table.insert(int64(i+1), fmt.Sprintf("%s-%d", key, i/keys), key, topic)
	}
	return keys * each
}

func TestDrainsInOrder(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(50, 60, "t")
		stop := s.start()
		s.table.drained(t, 10*time.Second)
		stop()
		if got := len(s.All()); got != n {
			t.Errorf("%d deliveries of %d rows", got, n)
		}
		checkOrder(t, s.All())
		if s.table.settles > n/20 {
			t.Errorf("%d statements settled %d rows", s.table.settles, n)
		}
		if overlaps := s.Overlaps(); len(overlaps) > 0 {
			t.Errorf("keys in two calls at once: %q", overlaps)
		}
	})
}

func TestRefusedRowWaitsAndFails(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.fill(10, 20, "t")
		s.Refuse("k3-5", 100)
		s.Refuse("k4-0", 2)
		stop := s.start()
		defer stop()
		s.table.drained(t, time.Minute)
		if r := s.table.row("k3-5"); !r.failed || r.attempt != 6 || s.Tries("k3-5") != 5 || r.lastError == "" {
			t.Errorf("after 5 refusals: %+v, %d tries", r, s.Tries("k3-5"))
		}
		if r := s.table.row("k4-0"); r.failed || !r.relayed || r.attempt != 3 {
			t.Errorf("after 2 refusals: %+v", r)
		}
		checkOrder(t, s.All())
		if _, duplicates := firsts(s.All()); duplicates > 0 {
			t.Errorf("%d duplicates", duplicates)
		}
	})
}

// A key whose head is refused does not delay the other keys.
func TestRefusedRowStopsOnlyItsKey(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.fill(10, 100, "t")
		s.Refuse("k0-0", 4)
		started := time.Now()
		stop := s.start()
		defer stop()
		for len(s.table.pending()) > 100 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(started); took > time.Second {
			t.Errorf("the other keys took %v", took)
		}
		s.table.drained(t, time.Minute)
		checkOrder(t, s.All())
	})
}

func TestPermanentFailsAtOnce(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.fill(5, 10, "t")
		s.Poison("k2-3")
		stop := s.start()
		defer stop()
		s.table.drained(t, time.Second)
		if r := s.table.row("k2-3"); !r.failed || r.attempt != 2 || s.Tries("k2-3") != 1 {
			t.Errorf("%+v after %d tries", r, s.Tries("k2-3"))
		}
		checkOrder(t, s.All())
	})
}

func TestOutageSpendsNothing(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(20, 50, "t")
		s.Down()
		stop := s.start()
		defer stop()
		time.Sleep(30 * time.Second)
		if pending := s.table.pending(); len(pending) != n {
			t.Fatalf("%d of %d rows pending during the outage", len(pending), n)
		}
		s.Up()
		s.table.drained(t, 2*time.Second)
		for _, id := range []string{"k0-0", "k19-49"} {
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

func TestMissingTopicHoldsItsRows(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		for i := range 300 {
			topic := []string{"there", "missing"}[i%2]
			s.table.insert(int64(i+1), "row"+strconv.Itoa(i), "", topic)
		}
		for i := range 100 { // keys that use both topics
			key := "k" + strconv.Itoa(i%4)
			s.table.insert(int64(i+1000), fmt.Sprintf("%s-%d", key, i/4), key, []string{"there", "missing"}[i/20%2])
		}
		s.Remove("missing")
		stop := s.start()
		defer stop()
		time.Sleep(10 * time.Second)
		if got := len(s.Received("there")); got < 150 {
			t.Errorf("%d rows flow beside the missing topic", got)
		}
		s.Create("missing")
		s.table.drained(t, 3*time.Second)
		checkOrder(t, s.All())
		if got := len(s.All()); got != 400 {
			t.Errorf("%d deliveries of 400", got)
		}
		if r := s.table.row("row1"); r.attempt != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// A row whose answer is lost is published again with the same id. A row that breaks the connection each time is found
// and fails alone.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(20, 20, "t")
		s.LoseAnswer("k1-1", 1)
		s.LoseMessage("k2-2", 2)
		s.Crash("k3-3")
		stop := s.start()
		defer stop()
		for i := 0; !s.table.row("k3-3").failed && i < 300; i++ { // other rows show that the broker is not at fault
			s.table.insert(int64(1000+i), "other"+strconv.Itoa(i), "", "t")
			n++
			time.Sleep(time.Second)
		}
		s.table.drained(t, time.Second)
		if r := s.table.row("k3-3"); !r.failed {
			t.Errorf("%+v", r)
		}
		first, duplicates := firsts(s.All())
		if len(first) != n-1 || duplicates == 0 || duplicates > s.limits.Rows {
			t.Errorf("%d of %d rows delivered, %d duplicates", len(first), n-1, duplicates)
		}
		checkOrder(t, s.All())
		for _, id := range []string{"k1-1", "k2-2", "k3-4"} {
			if r := s.table.row(id); r.attempt != 1 || r.failed {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
}

func TestCleanStopLeavesNothingInBetween(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(30, 100, "t")
		s.Delay(20 * time.Millisecond)
		for len(s.table.pending()) > 0 {
			stop := s.start()
			time.Sleep(35 * time.Millisecond)
			stop()
			if got := len(s.All()) + len(s.table.pending()); got != n {
				t.Fatalf("%d rows are delivered or pending, want %d", got, n)
			}
		}
		checkOrder(t, s.All())
	})
}

// While the database is away between publish and settle, the relay remembers which rows were accepted.
func TestSettleSurvivesTheDatabase(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(10, 100, "t")
		s.Hold()
		stop := s.start()
		defer stop()
		s.AwaitHeld(t, 1)
		s.table.setDown(true)
		s.Release()
		time.Sleep(20 * time.Second)
		s.table.setDown(false)
		s.table.drained(t, 5*time.Second)
		if got := len(s.All()); got != n {
			t.Errorf("%d deliveries of %d rows", got, n)
		}
	})
}

func TestUntrustedOwnerPublishesNothing(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		until := time.Now().Add(time.Second)
		s.owner.trusted = func() time.Time { return until }
		s.Delay(50 * time.Millisecond)
		stop := s.start()
		defer stop()
		time.Sleep(1100 * time.Millisecond)
		s.fill(5, 5, "t")
		time.Sleep(5 * time.Second)
		if got := len(s.All()); got != 0 {
			t.Errorf("%d messages published without trust", got)
		}
	})
}

// The bounds on rows in flight hold while the broker is slow.
func TestBoundInFlight(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.fill(100, 50, "t")
		s.limits = engine.Limits{Batch: 10, Rows: 37, Bytes: 1 << 20}
		s.Hold()
		stop := s.start()
		time.Sleep(time.Second)
		synctest.Wait()
		held := s.loop.engine.Snapshot(time.Now()).InFlight
		s.config.wake(measure.SourceDoorbell, false) // the loop continues after this
		// a part of the room is kept for keys in trouble, and less than a batch is not worth a read
		if held < 18 || held > 37 {
			t.Errorf("%d rows in flight, want nearly 37", held)
		}
		s.Release()
		s.table.drained(t, time.Minute)
		stop()
	})
}

// Destinations do not wait for one another, not even within a key.
func TestKeyOverTwoDestinations(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		other := publishertest.NewBroker()
		s.destinations = []*Destination{
			s.destination("orders", s.Broker, "order.*"),
			s.destination("audit", other, "audit.*"),
		}
		for i := range 200 {
			key := "k" + strconv.Itoa(i%5)
			s.table.insert(int64(i+1), fmt.Sprintf("%s-%d", key, i/5), key, []string{"order.x", "audit.x"}[i/15%2])
		}
		s.table.insert(300, "elsewhere", "", "nobody")
		other.Down()
		stop := s.start()
		defer stop()
		time.Sleep(time.Second)
		if got := len(s.All()); got != 105 {
			t.Errorf("%d of 105 rows went on beside the destination that is down", got)
		}
		for i := range 100 {
			s.table.insert(int64(400+i), "free"+strconv.Itoa(i), "", "order.y")
		}
		time.Sleep(time.Second)
		if got := len(s.Received("order.y")); got != 100 {
			t.Errorf("%d of 100 rows flow to the destination that is up", got)
		}
		other.Up()
		for deadline := time.Now().Add(10 * time.Second); len(s.table.pending()) > 1; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d rows pending", len(s.table.pending()))
			}
		}
		if got := s.table.pending(); !slices.Equal(got, []string{"elsewhere"}) {
			t.Errorf("pending: %q", got)
		}
		checkOrder(t, s.All())
		checkOrder(t, other.All())
		if id := other.All()[0].DedupID; id != other.All()[0].ID {
			t.Errorf("dedup id %q", id)
		}
	})
}
