package relay

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// While a destination is paused nothing is published to it. Rows on the wire are settled. Rows that were read are
// forgotten and read again later, so that rows that were deleted in the meantime are not sent. Other destinations
// continue, and the shards of the paused one can be released.
func TestPausedDestination(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		paused := publishertest.NewBroker()
		s.destinations = []*Destination{s.destination("paused", paused, "p"), s.destination("other", s.Broker)}
		for i := range 200 {
			s.table.insert(int64(2*i), fmt.Sprintf("p%05d", i), fmt.Sprint("k", i%50), "p")
		}
		paused.Refuse("p00001", 1)
		paused.Hold()
		defer s.start()()
		time.Sleep(time.Second) // some rows are on the wire, others in memory
		paused.Release()
		time.Sleep(time.Millisecond)
		s.destinations[0].paused.Store(true)
		time.Sleep(2 * time.Second)
		sent := len(paused.All())
		if relayed := 200 - len(s.table.pending()); sent != relayed {
			t.Errorf("%d rows were published and %d are marked", sent, relayed)
		}
		s.table.mu.Lock()
		clear(s.table.keyed)
		s.table.open = s.table.open[:0] // all pending rows are deleted
		s.table.mu.Unlock()
		for i := range 100 {
			s.table.insert(int64(1000+2*i), fmt.Sprintf("p1%04d", i), fmt.Sprint("k", i%50), "p")
			s.table.insert(int64(1001+2*i), fmt.Sprintf("o%05d", i), fmt.Sprint("k", i%50), "t")
		}
		time.Sleep(time.Minute)
		if got := len(paused.All()); got != sent || len(s.All()) != 100 {
			t.Errorf("%d rows were published while the destination is paused, and %d of 100 to the other", got-sent,
				len(s.All()))
		}
		if turns := s.turns.Swap(0); turns > 10_000 {
			t.Errorf("the loops turned %d times", turns)
		}
		heir := newSimOwner(0)
		s.owner.give(0, heir)
		time.Sleep(time.Second)
		if state, _ := heir.State(); !state.Owned.Has(0) {
			t.Error("a shard stays with a replica whose destination is paused")
		}
		heir.give(0, s.owner)
		var first owner.Set
		first.Add(0)
		heir.Left(first)
		s.destinations[0].paused.Store(false)
		s.table.drained(t, 10*time.Second)
		if got := len(paused.All()); got != sent+100 {
			t.Errorf("%d rows were published after the pause, not 100", got-sent)
		}
	})
}

// A pause and its end are logged once. Readiness mentions the pause and stays positive, and an unreachable broker no
// longer affects it.
func TestPauseIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newSim(t)
	on := false
	d := s.destinations[0]
	d.Paused = func() bool { return on }
	r := &Relay{
		config:   &Config{Destinations: s.destinations, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		database: &database{},
		owner:    owner.New(),
	}
	note := func() (string, error) {
		for _, c := range r.Ready() {
			if c.Name == "destination default" {
				return c.Note, c.Err
			}
		}
		return "", nil
	}
	for range 3 {
		r.lookAtPauses()
	}
	if text, _ := note(); strings.Contains(text, "paused") || !r.cannotPublish("") || log.Len() > 0 {
		t.Errorf("before the pause: %q, unable: %v, %s", text, r.cannotPublish(""), &log)
	}
	on = true
	for range 3 {
		r.lookAtPauses()
	}
	if text, err := note(); err != nil || !strings.HasPrefix(text, "paused") || r.cannotPublish("") {
		t.Errorf("paused: %q, %v, unable: %v", text, err, r.cannotPublish(""))
	}
	on = false
	for range 3 {
		r.lookAtPauses()
	}
	if text, _ := note(); strings.Contains(text, "paused") || !r.cannotPublish("") ||
		strings.Count(log.String(), "\n") != 2 {
		t.Errorf("after the pause: %q, unable: %v\n%s", text, r.cannotPublish(""), &log)
	}
}
