package relay

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// However many keys are blocked by answers, the number of keys remembered is bounded. The other keys are passed over,
// and follow in order.
func TestBlockedKeysAreBounded(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"refused":     publisher.RefusedError("no", "no"),
		"no leader":   publisher.UnavailableError(publisher.ScopeMessage, "no leader", "no leader"),
		"no topic":    publisher.TopologyError("no topic", "no topic"),
		"unavailable": publisher.UnavailableError(publisher.ScopeDestination, "away", "away"),
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				const most, keys, each = 20, 400, 3
				s.limits.Keys, s.limits.Batch, s.limits.Rows = most, 50, 100
				p := &stuckPublisher{Publisher: s.Broker.Publisher(), answer: func(*publisher.Message) error { return answer }}
				stuck := s.destination("stuck", s.Broker, "stuck*")
				stuck.Publisher, stuck.MaxAttempts, stuck.BackoffMax = p, 1<<20, time.Second
				s.destinations = []*Destination{stuck, s.destinations[0]}
				for i := range keys * each {
					key := stuckKey + strconv.Itoa(i%keys)
					s.table.insert(int64(2*i+1), fmt.Sprintf("%s-%d", key, i/keys), key, key)
					s.table.insert(int64(2*i+2), fmt.Sprintf("k%d-%d", i%keys, i/keys), "k"+strconv.Itoa(i%keys), "t")
				}
				stop := s.start()
				defer stop()
				for range 60 {
					time.Sleep(500 * time.Millisecond)
					synctest.Wait()
					s.config.wake(measure.SourceDoorbell, false) // the loop continues after this
				}
				if got := len(s.Received("t")); got != keys*each {
					t.Errorf("%d of %d rows flow beside them", got, keys*each)
				}
				p.freed.Store(true)
				s.table.drained(t, 2*time.Minute)
				checkOrder(t, s.All())
			})
		})
	}
}
