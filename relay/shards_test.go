package relay

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// Shards move between three replicas while rows flow, are refused, fail and are retried, and brokers and the database
// go away and come back. Nothing is published twice, and every key stays in order.
func TestRandomShardMoves(t *testing.T) {
	schedules(t, 300, func(t *testing.T, s *sim, r *rand.Rand) {
		for _, problem := range s.moveShards(r, true) {
			t.Error(problem)
		}
	})
}

// moveShards returns the problems it found. One of the replicas may understand the table differently; guarded, such
// replicas do not own shards at the same time.
func (s *sim) moveShards(r *rand.Rand, guarded bool) (problems []string) {
	s.limits.Batch, s.limits.Rows, s.limits.Keys = 1+r.IntN(50), 1+r.IntN(200), []int{0, 2}[r.IntN(2)]
	s.Delay(time.Duration(r.IntN(5000)) * time.Microsecond)
	s.table.took = time.Duration(r.IntN(5000)) * time.Microsecond
	block := r.IntN(2) == 0
	// most is the highest number of refusals of a row. A row with more would fail, and its key would continue without it.
	most := 3
	if block {
		most = 7
	}
	replicas := []*simOwner{s.owner, newSimOwner(0), newSimOwner(0)}
	var stops []func()
	var loops []*loop
	mixed := newMixture(replicas, guarded && r.IntN(2) == 0 || !guarded)
	for i, replica := range replicas {
		s.owner, s.destinations = replica, []*Destination{s.destination("default", s.Broker)}
		s.destinations[0].BlockFailed = block
		cancel, done := s.startOn(mixed.table(s.table, i))
		stops, loops = append(stops, func() { cancel(); <-done }), append(loops, s.loop)
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
		from, to := r.IntN(3), i%3
		switch {
		case mixed.beside(from, to) || !guarded:
			replicas[from].give(r.IntN(simShards), replicas[to])
		case r.IntN(4) == 0:
			mixed.follow(to)
		}
		mixed.step()
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	s.Up()
	s.Create("b")
	s.table.setDown(false)
	patience := 10 * time.Minute
	if !guarded {
		patience = time.Minute // some rows have no owner
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) &&
		len(s.table.pending())+len(s.table.failedRows()) > 0; time.Sleep(time.Second) {
		s.retryFailed(r)
		mixed.step()
	}
	if pending := s.table.pending(); len(pending) > 0 {
		problems = append(problems, fmt.Sprintf("%d rows still pending: %.200q", len(pending), pending))
	}
	for i, stop := range stops {
		if stop(); len(problems) > 0 {
			problems = append(problems, "a replica remembered: "+loops[i].engine.Leftover())
		}
	}
	if got := len(s.All()); got != n {
		problems = append(problems, fmt.Sprintf("%d deliveries of %d rows", got, n))
	}
	problems = append(problems, disorder(s.All())...)
	if overlaps := s.Overlaps(); len(overlaps) > 0 {
		problems = append(problems, fmt.Sprintf("keys in two calls at once: %q", overlaps))
	}
	return problems
}

// retryFailed retries half of the failed rows.
func (s *sim) retryFailed(r *rand.Rand) {
	for _, id := range s.table.failedRows() {
		if r.IntN(2) == 0 {
			s.table.free(id, false)
		}
	}
}
