package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A row that breaks the connection each time is found and refused. This also holds where there are several destinations and
// no room to remember the waiting keys. The rows of its topic that wait for it continue.
func TestRowThatBreaksConnectionsIsFoundAmongDestinations(t *testing.T) {
	for _, room := range []int{5, 0} {
		t.Run(fmt.Sprint("room for ", room, " keys"), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: 3, Rows: 14, Bytes: 64, Keys: room}
				s.destinations = []*Destination{s.destination("one", s.Broker, "a"), s.destination("two", s.Broker, "b")}
				for i := range 60 {
					key := fmt.Sprint("k", i%6)
					s.table.insert(int64(i+1), fmt.Sprint(key, "-", i/6), key, []string{"b", "a", "b"}[i%3])
				}
				for _, id := range []string{"k2-0", "k3-1"} {
					s.Crash(id)
				}
				stop := s.start()
				defer stop()
				for i := 60; len(s.table.pending()) > 0 && i < 3000; i++ {
					// Later rows show which one is to blame.
					s.table.insert(int64(i+1), fmt.Sprint("later-", i), "", []string{"a", "b"}[i%2])
					time.Sleep(500 * time.Millisecond)
					if i > 600 {
						t.Fatalf("%d rows are pending", len(s.table.pending()))
					}
				}
				for _, id := range []string{"k2-0", "k3-1"} {
					if !s.table.row(id).failed {
						t.Errorf("%s has not failed", id)
					}
				}
			})
		})
	}
}
