package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A rate holds from the first second on, for one row a minute as for thousands a second. Retries and order are the same
// as without a rate. Rows that wait for the rate are not held, and memory holds hardly more rows than are sent soon.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate float64 // rows a second
		rows int
	}{{1.0 / 60, 5}, {0.5, 20}, {7, 100}, {500, 3000}, {5000, 15000}} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: 1000, Rows: 100_000, Bytes: 1 << 30}
				s.destinations[0].Rate = c.rate
				for i := range c.rows {
					s.table.insert(int64(i), fmt.Sprintf("r%05d", i), fmt.Sprint("k", i%7), "t")
				}
				s.Refuse("r00001", 2)
				defer s.start()()
				began := time.Now()
				burst := max(1, c.rate)
				for len(s.table.pending()) > 0 {
					time.Sleep(time.Duration(float64(time.Second) / min(c.rate, 10)))
					passed := time.Since(began).Seconds()
					if got := float64(len(s.All())); got > burst+passed*c.rate {
						t.Fatalf("%v rows after %v s", got, passed)
					}
					if n := float64(s.destinations[0].snapshot().InFlight); n > 5+4*c.rate {
						t.Fatalf("%v rows are in memory", n)
					}
					held := s.destinations[0].snapshot().Held
					if held[engine.CauseRetry] > 1 || held[engine.CauseUnavailable]+held[engine.CauseTopology] > 0 {
						t.Fatalf("held are %v", held)
					}
					if passed > 2*float64(c.rows)/c.rate+60 {
						t.Fatalf("%d of %d rows are pending after %v s", len(s.table.pending()), c.rows, passed)
					}
				}
				if passed := time.Since(began).Seconds(); passed > 1.1*float64(c.rows+2)/c.rate+5 {
					t.Errorf("it took %v s", passed)
				}
				if errs := s.disordered(); len(errs) > 0 || len(s.All()) != c.rows || s.Tries("r00001") != 3 {
					t.Errorf("%d rows, out of order %q, %d tries of the one that is refused", len(s.All()), errs, s.Tries("r00001"))
				}
			})
		})
	}
}

// Replicas keep a rate together, whatever the distribution of shards, and also while shards change hands.
func TestRateOfAllReplicas(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const rate = 100
		s.destinations[0].Rate = rate
		for i := range 3000 {
			s.table.insert(int64(i), fmt.Sprintf("r%05d", i), fmt.Sprint("k", i%100), "t")
		}
		defer s.start()()
		other := newSim(t)
		other.table, other.owner, other.destinations = s.table, newSimOwner(0),
			[]*Destination{s.destination("default", s.Broker)}
		other.destinations[0].Rate = rate
		defer other.start()()
		began := time.Now()
		for round := range 10 {
			time.Sleep(2 * time.Second)
			for shard := range simShards {
				if from, to := s.owner, other.owner; round%2 == 0 && shard%3 > 0 {
					from.give(shard, to)
				} else if round%2 == 1 {
					to.give(shard, from)
				}
			}
			if got, most := len(s.All()), rate+2+int(rate*time.Since(began).Seconds()); got > most {
				t.Fatalf("%d rows after %v", got, time.Since(began))
			}
		}
		if got, least := len(s.All()), int(0.8*rate*time.Since(began).Seconds()); got < least {
			t.Errorf("%d rows after %v", got, time.Since(began))
		}
	})
}

// A destination with a rate delays no other, and an outage does not use up its rate.
func TestRateIsItsOwn(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		slow := publishertest.NewBroker()
		s.destinations = []*Destination{s.destination("slow", slow, "slow"), s.destination("quick", s.Broker)}
		s.destinations[0].Rate = 1.0 / 600
		for i := range 1000 {
			s.table.insert(int64(2*i), fmt.Sprint("s", i), fmt.Sprint("k", i), "slow")
			s.table.insert(int64(2*i+1), fmt.Sprint("q", i), fmt.Sprint("k", i), "t")
		}
		slow.Down()
		defer s.start()()
		time.Sleep(5 * time.Second)
		if got := len(s.All()); got != 1000 {
			t.Errorf("%d of 1000 rows of the other destination were published", got)
		}
		slow.Up()
		time.Sleep(time.Minute)
		if got := len(slow.All()); got != 1 {
			t.Errorf("%d rows were published after the outage, not the one that may be", got)
		}
	})
}

// Each destination has the share that it was configured with, and the others divide the rest.
func TestShares(t *testing.T) {
	t.Parallel()
	d := func(rows int, bytes int64) *Destination {
		return &Destination{MaxInFlight: rows, MaxInFlightBytes: bytes}
	}
	for _, c := range []struct {
		destinations []*Destination
		rows         []int
		bytes        []int64
	}{
		{[]*Destination{d(0, 0)}, []int{1000}, []int64{6000}},
		{[]*Destination{d(0, 0), d(0, 0), d(0, 0)}, []int{333, 333, 333}, []int64{2000, 2000, 2000}},
		{[]*Destination{d(900, 0), d(0, 3000), d(0, 0)}, []int{900, 50, 50}, []int64{1500, 3000, 1500}},
		{[]*Destination{d(10, 10), d(20, 20)}, []int{10, 20}, []int64{10, 20}},
	} {
		for i, d := range c.destinations {
			s := shareOf(engine.Limits{Rows: 1000, Bytes: 6000}, c.destinations, d)
			if s.Rows != c.rows[i] || s.Bytes != c.bytes[i] {
				t.Errorf("destination %d of %v: %+v", i, c.rows, s)
			}
		}
	}
}
