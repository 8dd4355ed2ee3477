package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// twice adds a second destination that also takes each row, with columns of its own.
func (s *sim) twice(topics ...string) (broker *publishertest.Broker, table *simTable) {
	broker = publishertest.NewBroker()
	second := s.destination("second", broker, topics...)
	second.Columns = ownColumns("second")
	s.destinations = append(s.destinations, second)
	return broker, s.table.also()
}

// While two destinations are equally fast, one statement marks nearly all rows for both of them. This holds with a backlog
// and in steady traffic, also where one destination answers a little later each time.
func TestMarksMeet(t *testing.T) {
	const rows = 4000
	for name, pause := range map[string]time.Duration{"backlog": 0, "steady": time.Millisecond, "rare rows": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				second, copies := s.twice()
				s.Delay(10 * time.Millisecond)
				second.Delay(10 * time.Millisecond)
				if pause > 0 {
					second.Delay(35 * time.Millisecond)
				}
				s.table.setTook(4 * time.Millisecond)
				rows := rows
				if pause > 100*time.Millisecond {
					rows = 50
				}
				add := func() {
					for i := range rows {
						s.table.insert(int64(i), fmt.Sprint("r", i), fmt.Sprint("k", i%50), "t")
						time.Sleep(pause)
					}
				}
				if pause == 0 {
					add()
				}
				stop := s.start()
				if pause > 0 {
					add()
				}
				s.table.drained(t, time.Minute)
				copies.drained(t, time.Minute)
				stop()
				if s.table.joined < rows*9/10 {
					t.Errorf("of %d rows %d were marked for both at once", rows, s.table.joined)
				}
			})
		})
	}
}

// However slow a destination is and whatever happens to it, the other one is as fast as if it were alone, except for a
// moment.
func TestMarksDoNotWaitForLong(t *testing.T) {
	const rows = 5000
	drain := func(t *testing.T, prepare func(*sim)) (took time.Duration) {
		simulate(t, func(t *testing.T, s *sim) {
			prepare(s)
			for i := range rows {
				s.table.insert(int64(i), fmt.Sprint("r", i), fmt.Sprint("k", i%50), "t")
			}
			s.Delay(10 * time.Millisecond)
			s.table.setTook(4 * time.Millisecond)
			stop := s.start()
			started := time.Now()
			s.table.drained(t, time.Minute)
			took = time.Since(started)
			stop()
		})
		return took
	}
	for name, trouble := range map[string]func(*publishertest.Broker){
		"slow":         func(b *publishertest.Broker) { b.Delay(40 * time.Millisecond) },
		"a bit slower": func(b *publishertest.Broker) { b.Delay(13 * time.Millisecond) },
		"frozen":       func(b *publishertest.Broker) { b.Silence("t") },
		"down":         func(b *publishertest.Broker) { b.Down() },
		"refuses": func(b *publishertest.Broker) {
			for i := range rows {
				b.Refuse(fmt.Sprint("r", i), 100)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			alone := drain(t, func(s *sim) {
				s.twice()
				s.destinations[1].Paused = func() bool { return true }
				s.destinations[1].paused.Store(true)
			})
			beside := drain(t, func(s *sim) {
				second, copies := s.twice()
				copies.setTook(4 * time.Millisecond)
				second.Delay(10 * time.Millisecond)
				trouble(second)
			})
			t.Logf("%v beside %v alone", beside, alone)
			if limit := alone*21/20 + 250*time.Millisecond; beside > limit {
				t.Errorf("beside it %d rows took %v, alone %v", rows, beside, alone)
			}
		})
	}
}
