package relay

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// While a destination keeps shards that are to be released, because it still waits for an answer, the other
// destinations continue to relay their rows of these shards. They let go of the shards as soon as that destination has.
func TestSlowDestinationKeepsShardsAlone(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		slow := publishertest.NewBroker()
		s.destinations = []*Destination{s.destination("slow", slow, "slow"), s.destination("quick", s.Broker)}
		heir := newSimOwner(0)
		slow.Hold()
		for i := range 50 {
			s.table.insert(int64(i+1), fmt.Sprint("s", i), fmt.Sprint("k", i), "slow")
		}
		defer s.start()()
		time.Sleep(2 * time.Second) // it has been waiting for an answer for some time
		for shard := range simShards {
			s.owner.give(shard, heir)
		}
		for i := range 50 {
			s.table.insert(int64(i+100), fmt.Sprint("q", i), fmt.Sprint("k", i), "t")
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(s.interval) // the last row is relayed too
		if got := len(s.Received("t")); got != 50 {
			t.Errorf("%d of 50 rows for the quick destination were relayed meanwhile", got)
		}
		slow.Release()
		time.Sleep(time.Second)
		if state, _ := heir.State(); state.Owned != shardsBelow(simShards) {
			t.Errorf("the heir has the shards %v", state.Owned.Shards())
		}
	})
}

// A destination that takes no rows, or that is down, uses neither memory nor reading time of another one.
func TestDestinationsShareTheLimits(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		down := publishertest.NewBroker()
		s.destinations = []*Destination{s.destination("down", down, "down"), s.destination("up", s.Broker)}
		s.limits = engine.Limits{Batch: 10, Rows: 40, Bytes: 1 << 20}
		down.Down()
		for i := range 1000 {
			s.table.insert(int64(i+1), fmt.Sprint("d", i), fmt.Sprint("k", i), "down")
		}
		for i := range 200 {
			s.table.insert(int64(i+2000), fmt.Sprint("u", i), fmt.Sprint("k", i), "t")
		}
		defer s.start()()
		time.Sleep(5 * time.Second)
		if got := len(s.All()); got != 200 {
			t.Errorf("%d of 200 rows were relayed beside a destination that is down", got)
		}
		down.Up()
		s.table.drained(t, time.Minute)
	})
}

// refuseBeside makes the first destination refuse the given number of rows, beside one that has none yet.
func (s *sim) refuseBeside(rows int) {
	refusing := publishertest.NewBroker()
	s.destinations = []*Destination{s.destination("refusing", refusing, "bad"), s.destination("other", s.Broker)}
	s.destinations[0].MaxAttempts = 1
	refusing.Delay(20 * time.Millisecond)
	for i := range rows {
		id := fmt.Sprint("b", i)
		refusing.Refuse(id, 1)
		s.table.insert(int64(i+1), id, id, "bad")
	}
}

// While a destination with a rate rests because it refuses everything, its loop sleeps.
func TestRestOfADestinationWithARate(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const rows = 4_000
		s.refuseBeside(rows)
		s.destinations[0].Rate = 100_000
		defer s.start()()
		var before int64
		for i := range 1000 {
			s.table.insert(int64(i+rows+1), fmt.Sprint("o", i), "", "t")
			time.Sleep(10 * time.Millisecond)
			if i == 500 {
				before = s.turns.Load()
			}
		}
		n := s.turns.Load() - before
		if n > 5000 {
			t.Errorf("%d turns of the loops in five seconds", n)
		}
	})
}

// Nothing that a turn has started goes on when it has ended: the race detector would find it beside what makes the next
// turn.
func TestNothingIsLeftOfATurn(t *testing.T) {
	t.Parallel()
	simulate(t, func(_ *testing.T, s *sim) {
		link := &session{simTable: s.table, cut: new(atomic.Bool)}
		link.open()
		cancel, done := s.startOn(link)
		for range 1000 {
			s.table.alter()
			time.Sleep(time.Second)
		}
		cancel()
		<-done
	})
}
