package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A shard is released when no destination has any of its rows in flight. If it stays after all, and is to be released
// later, a destination that had nothing in flight the first time counts again.
func TestShardIsReleasedByAllDestinations(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		first := publishertest.NewBroker()
		s.destinations = []*Destination{s.destination("first", first, "a"), s.destination("second", s.Broker)}
		heir := newSimOwner(0)
		const shard = 3
		given := func() bool { state, _ := heir.State(); return state.Owned.Has(shard) }
		key := "k"
		for simShard(key, "") != shard {
			key += "k"
		}
		defer s.start()()
		// A destination that takes longer than slowAfter would make the other one keep the shard for its sake.
		const soon = slowAfter / 3
		for i, broker := range []*publishertest.Broker{first, s.Broker} {
			broker.Hold()
			s.table.insert(int64(i+1), fmt.Sprint("row", i), key, []string{"a", "b"}[i])
			time.Sleep(soon)
			s.owner.give(shard, heir)
			time.Sleep(soon)
			if given() {
				t.Errorf("destination %d has a row in flight, and its shard was released", i)
			}
			if i == 0 {
				s.owner.takeBack(shard, heir)
			}
			broker.Release()
			time.Sleep(time.Second)
		}
		if !given() {
			t.Error("the shard was not released")
		}
	})
}
