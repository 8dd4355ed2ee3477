package relay

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// Shards move between three replicas while rows flow, are refused, fail and are retried, and brokers and database go and come:
// nothing is published twice, and every key stays in order.
func TestRandomShardMoves(t *testing.T) {
	schedules(t, 300, func(t *testing.T, s *sim, r *rand.Rand) { s.moveShards(t, r) })
}

func (s *sim) moveShards(t *testing.T, r *rand.Rand) {
	s.limits.Batch, s.limits.Rows, s.limits.keys = 1+r.IntN(50), 1+r.IntN(200), []int{0, 2}[r.IntN(2)]
	s.Delay(time.Duration(r.IntN(5000)) * time.Microsecond)
	s.table.took = time.Duration(r.IntN(5000)) * time.Microsecond
	block := r.IntN(2) == 0
	s.destinations[0].BlockFailed = block
	most := 3 // refusals of a row: fewer than make it fail, where its key would go on without it
	if block {
		most = 7
	}
	replicas := []*simOwner{s.owner, newSimOwner(0), newSimOwner(0)}
	var stops []func()
	for _, replica := range replicas {
		s.owner = replica
		stops = append(stops, s.start())
	}
	n := 0
	for i := range 25 {
		switch r.IntN(9) {
		case 0:
			s.Down()
		case 1:
			s.Up()
		case 2:
			s.Remove("b")
		case 3:
			s.Create("b")
		case 4:
			s.table.setDown(true)
		case 5:
			s.table.setDown(false)
		case 6:
			s.retryFailed(r)
		}
		for range r.IntN(15) {
			key := "k" + strconv.Itoa(r.IntN(15))
			id := fmt.Sprintf("%s-%d", key, n)
			if r.IntN(40) == 0 {
				s.Refuse(id, 1+r.IntN(most))
			}
			n++
			s.table.insert(int64(n), id, key, []string{"a", "b"}[r.IntN(2)])
		}
		replicas[r.IntN(3)].give(r.IntN(simShards), replicas[i%3])
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	s.Up()
	s.Create("b")
	s.table.setDown(false)
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline) && len(s.table.pending())+len(s.table.failedRows()) > 0; time.Sleep(time.Second) {
		s.retryFailed(r)
	}
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

// retryFailed retries half of the failed rows.
func (s *sim) retryFailed(r *rand.Rand) {
	for _, id := range s.table.failedRows() {
		if r.IntN(2) == 0 {
			s.table.free(id, false)
		}
	}
}
