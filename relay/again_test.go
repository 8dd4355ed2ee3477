package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// The replica gains a shard while a catch-up scan brings the rows of keys, and there is no room for a read. Nothing is
// committed late, and all keys keep their order.
func TestKeysKeepTheirOrderWhenAShardIsGainedDuringAScan(t *testing.T) {
	t.Parallel()
	for spare := range simShards {
		simulate(t, func(t *testing.T, s *sim) {
			ordinal := int64(0)
			next := func() int64 { ordinal++; return ordinal }
			heir := newSimOwner(0)
			s.limits.Batch, s.limits.Rows = 1, 30
			defer s.start()()
			s.owner.give(spare, heir)
			s.Remove("gone")
			for n := range 100 {
				key := fmt.Sprint("k", n*7%(n/4+1)) // one more key now and then
				s.table.insert(next(), fmt.Sprintf("%s-%03d", key, n), key, "gone")
			}
			time.Sleep(5 * time.Second)
			s.Create("gone")
			for len(s.All()) == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			s.Hold()
			time.Sleep(time.Second)
			heir.update(func() { heir.state.Owned = heir.state.Owned.Without(shardAlone(spare)) })
			s.owner.update(func() { s.owner.state.Owned.Add(spare) })
			time.Sleep(time.Second)
			s.Release()
			s.table.drained(t, time.Minute)
			for n := range 25 {
				if got := relayedOf(s, fmt.Sprint("k", n)); !slices.IsSorted(got) {
					t.Errorf("relayed as %v", got)
				}
			}
		})
	}
}

// A row is on the wire when an older row of its key is seen that a long transaction has committed. Then the replica
// gains another shard, so that the tail scan begins again, and the broker has not attempted the row. The older row goes
// first.
func TestOlderRowGoesFirstWhenAShardIsGained(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		ordinal := int64(0)
		next := func() int64 { ordinal++; return ordinal }
		spare := (simShard("k", "") + 1) % simShards
		heir := newSimOwner(0)
		defer s.start()()
		s.owner.give(spare, heir)
		s.flowFor(time.Second, next)
		x := s.table.begin()
		s.flowFor(9*time.Second, next)
		six := next()
		s.Silence("silent")
		s.Answer("k-9", publisher.ErrNotAttempted)
		s.table.insert(next(), "k-9", "k", "silent")
		time.Sleep(100 * time.Millisecond)
		s.table.setTook(50 * time.Millisecond)
		s.table.commit(x, func() { s.table.add(six, "k-6", "k", "silent") })
		for s.table.row("k-6").seen.IsZero() {
			time.Sleep(time.Millisecond)
		}
		heir.update(func() { heir.state.Owned = heir.state.Owned.Without(shardAlone(spare)) })
		s.owner.update(func() { s.owner.state.Owned.Add(spare) })
		time.Sleep(75 * time.Millisecond)
		s.Speak("silent")
		s.table.drained(t, time.Minute)
		if got := relayedOf(s, "k"); !slices.Equal(got, []string{"k-6", "k-9"}) {
			t.Errorf("relayed as %v", got)
		}
	})
}

// A destination is paused for a moment while a row of a key is on the wire. The tail scan that begins again meets the
// row while it is still there; another destination has marked the row and those after it meanwhile, so that they look
// new. Then the broker answers that it has not attempted the row. The key's younger row, which was not marked, does not
// go before it.
func TestRowOnTheWireThatWasChangedIsNotOvertaken(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits.Batch = 10
		s.Remove("gone")
		s.Silence("slow")
		s.Answer("k-15", publisher.ErrNotAttempted)
		for n := range int64(100) {
			switch n {
			case 15:
				s.table.insert(n, "k-15", "k", "slow")
			case 85:
				s.table.insert(n, "k-85", "k", "t")
			default:
				id := fmt.Sprint("g-", n)
				s.table.insert(n, id, id, "gone")
			}
		}
		defer s.start()()
		time.Sleep(time.Second)
		d := s.destinations[0]
		d.paused.Store(true)
		time.Sleep(1500 * time.Millisecond)
		s.table.setTook(20 * time.Millisecond)
		before, reads := s.table.returnedCount(), s.table.readCount()
		d.paused.Store(false)
		returned := func(rows int) {
			for s.table.returnedCount() < before+rows {
				time.Sleep(time.Millisecond)
			}
		}
		for s.table.readCount() == reads {
			time.Sleep(time.Millisecond)
		}
		for n := int64(10); n < 80; n++ {
			id := fmt.Sprint("g-", n)
			if n == 15 {
				id = "k-15"
			}
			s.table.change(id)
		}
		returned(25)
		s.Speak("slow")
		time.Sleep(2 * time.Second)
		s.Create("gone")
		s.table.drained(t, time.Minute)
		if got := relayedOf(s, "k"); !slices.Equal(got, []string{"k-15", "k-85"}) {
			t.Errorf("relayed as %v", got)
		}
	})
}
