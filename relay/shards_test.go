package relay

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// Shards move between three replicas while rows flow, are refused, and brokers go and come: nothing is
// published twice, and every key stays in order.
func TestRandomShardMoves(t *testing.T) {
	schedules(t, 300, func(t *testing.T, s *sim, r *rand.Rand) { s.moveShards(t, r) })
}

func (s *sim) moveShards(t *testing.T, r *rand.Rand) {
	s.limits.Batch, s.limits.Rows, s.limits.keys = 1+r.IntN(50), 1+r.IntN(200), []int{0, 2}[r.IntN(2)]
	s.Delay(time.Duration(r.IntN(5000)) * time.Microsecond)
	replicas := []*simOwner{s.owner, newSimOwner(0), newSimOwner(0)}
	var stops []func()
	for _, replica := range replicas {
		s.owner = replica
		stops = append(stops, s.start())
	}
	n := 0
	for i := range 25 {
		switch r.IntN(6) {
		case 0:
			s.Down()
		case 1:
			s.Up()
		case 2:
			s.Remove("b")
		case 3:
			s.Create("b")
		}
		for range r.IntN(15) {
			key := "k" + strconv.Itoa(r.IntN(15))
			id := fmt.Sprintf("%s-%d", key, n)
			if r.IntN(40) == 0 {
				s.Refuse(id, 1+r.IntN(3))
			}
			n++
			s.table.insert(int64(n), id, key, []string{"a", "b"}[r.IntN(2)])
		}
		replicas[r.IntN(3)].give(r.IntN(simShards), replicas[i%3])
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	s.Up()
	s.Create("b")
	s.table.drained(t, time.Minute)
	for _, stop := range stops {
		stop()
	}
	if got := len(s.All()); got != n {
		t.Errorf("%d deliveries of %d rows", got, n)
	}
	checkOrder(t, s.All())
	if overlaps := s.Overlaps(); len(overlaps) > 0 {
		t.Errorf("keys in two calls at once: %q", overlaps)
	}
}
