package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// twice lets a second destination have each row, in columns of its own.
func (s *sim) twice(topics ...string) (broker *publishertest.Broker, table *simTable) {
	broker = publishertest.NewBroker()
	second := s.destination("second", broker, topics...)
	second.Columns = ownColumns("second")
	s.destinations = append(s.destinations, second)
	return broker, s.table.also()
}

// While two destinations are equally fast, the marks of nearly all rows meet, in a backlog and in steady traffic, also where one answers a
// little later each time.
func TestMarksMeet(t *testing.T) {
	const rows = 4000
	for name, pause := range map[string]time.Duration{"backlog": 0, "steady": time.Millisecond, "seldom": 300 * time.Millisecond} {
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

// However slow a destination is or what becomes of it, the other one is as fast as if it were alone, but for a moment.
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
			if limit := alone*21/20 + mostCredit; beside > limit {
				t.Errorf("beside it %d rows took %v, alone %v", rows, beside, alone)
			}
		})
	}
}

// A mark waits for those of destinations that have the row in flight or come to it, and for no others, and at most a moment; at a stop it
// goes at once. After some waits in vain there are no more until both are at the same row.
func TestWhatMarksWaitFor(t *testing.T) {
	simulate(t, func(t *testing.T, _ *sim) {
		every := func(string) bool { return true }
		settlement := newSettlement(100, make([]Table, 3), []func(string) bool{every, every, func(topic string) bool { return topic == "third" }})
		defer settlement.close()
		limits := Limits{Rows: 100, Bytes: 1 << 20}
		first, second := &writer{limits: limits}, &writer{state: 1, limits: limits}
		flights := []*flights{settlement.flights(0), settlement.flights(1), settlement.flights(2)}
		flights[0].walk(2)
		flights[1].walk(1)
		begin := func(state int, id string) *row {
			r := rowsNamed(id)[0]
			r.Position.Ordinal = 1
			r.others = flights[state].others("t")
			flights[state].begin(r)
			return r
		}
		takes := func(want ...string) {
			t.Helper()
			settlement.mu.Lock()
			defer settlement.mu.Unlock()
			job := settlement.take()
			if got := idsOfOrders(job); !slices.Equal(got, want) {
				t.Errorf("written is %q, not %q", got, want)
			}
			if job != nil {
				settlement.mu.Unlock()
				settlement.done(job)
				settlement.mu.Lock()
			}
		}
		accept := func(w *writer, r ...*row) { settlement.write(w, outcome{accepted: r}) }

		a := begin(0, "a")
		accept(first, a) // the second has been there
		takes("a")

		b := begin(0, "b")
		other := begin(1, "b")
		accept(first, b)
		takes()
		accept(second, other)
		takes("b", "b")

		c := begin(0, "c")
		other = begin(1, "c")
		accept(first, c)
		flights[1].end(other) // it waits for its broker, and is in flight no more
		takes("c")

		begin(1, "d")
		accept(first, begin(0, "d"))
		time.Sleep(meetFor)
		takes("d")
		for _, id := range []string{"e", "f"} {
			r := begin(0, id)
			r.Position.Ordinal = 2 // which the second has not come to
			accept(first, r)
			takes()
			time.Sleep(meetFor)
			takes(id)
		}
		r := begin(0, "g")
		r.Position.Ordinal = 2
		accept(first, r)
		takes("g")
		h, other := begin(0, "h"), begin(1, "h")
		accept(second, other) // in step again
		takes()
		accept(first, h)
		takes("h", "h")
		begin(1, "i")
		accept(first, begin(0, "i"))
		takes()
		settlement.hurry()
		takes("i")
	})
}
