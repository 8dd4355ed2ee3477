package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// eachOrder runs a test with a column that holds the inserting transaction, and without.
func eachOrder(t *testing.T, test func(t *testing.T, s *sim, next func() int64)) {
	for _, txid := range []bool{false, true} {
		t.Run(fmt.Sprint("txid ", txid), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				ordinal := int64(0)
				next := func() int64 { ordinal++; return ordinal }
				s.table.txid = txid
				s.limits = engine.Limits{Batch: 20, Rows: 100, Bytes: 1 << 20}
				s.table.took = 3 * time.Millisecond
				test(t, s, next)
			})
		})
	}
}

// flowFor makes rows flow for a time.
func (s *sim) flowFor(d time.Duration, next func() int64) {
	for ended := time.Now().Add(d); time.Now().Before(ended); time.Sleep(200 * time.Millisecond) {
		n := next()
		s.table.insert(n, fmt.Sprint("flow", n), "", "flow")
	}
}

// Rows without a key that another session changes while a catch-up scan is to bring them are brought by the next tail
// scan.
func TestRowsWithoutAKeyChangedDuringAScan(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, 3 * time.Second} {
		eachOrder(t, func(t *testing.T, s *sim, next func() int64) {
			s.Remove("gone")
			defer s.start()()
			s.flowFor(8*time.Second+wait, next)
			var ids []string
			for range 400 {
				n := next()
				ids = append(ids, fmt.Sprint("x", n))
				s.table.insert(n, ids[len(ids)-1], "", "gone")
			}
			time.Sleep(time.Second)
			s.Create("gone")
			for n := len(s.All()); len(s.All()) < n+15; {
				time.Sleep(100 * time.Microsecond)
			}
			for _, id := range ids[100:] {
				if !s.table.row(id).relayed {
					s.table.change(id)
				}
			}
			s.table.drained(t, 500*time.Millisecond)
		})
	}
}

// The same, where a destination with columns of its own marks the rows meanwhile.
func TestRowsWithoutAKeyMarkedElsewhereDuringAScan(t *testing.T) {
	for try := range 10 {
		eachOrder(t, func(t *testing.T, s *sim, next func() int64) {
			other := publishertest.NewBroker()
			copies := s.table.also()
			copies.txid, copies.took = s.table.txid, s.table.took
			to := s.destination("copies", other)
			to.Columns = map[string]string{"relayed_at": "copied_at"}
			s.destinations = append(s.destinations, to)
			s.Remove("gone")
			defer s.start()()
			s.flowFor(8*time.Second+time.Duration(try)*500*time.Millisecond, next)
			other.Remove("gone")
			for range 400 {
				n := next()
				s.table.insert(n, fmt.Sprint("x", n), "", "gone")
			}
			time.Sleep(time.Second)
			s.Create("gone")
			other.Create("gone")
			s.table.drained(t, 1500*time.Millisecond)
		})
	}
}

// A row that is retried soon after it has failed, by a command, is looked for at once, also while other rows wait.
func TestRowRetriedSoon(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		eachOrder(t, func(t *testing.T, s *sim, next func() int64) {
			defer s.start()()
			s.flowFor(8*time.Second, next)
			s.Answer("x", publisher.PermanentError("no", "no"))
			if waiting {
				s.Refuse("waits-0", 2)
				s.table.insert(next(), "waits-0", "waits", "t")
				s.table.insert(next(), "waits-1", "waits", "t")
			}
			s.table.insert(next(), "x", "k", "t")
			time.Sleep(time.Second)
			s.Heal("x")
			s.table.free("x", false)
			s.config.wake("", true)
			for began := time.Now(); !s.table.row("x").relayed; time.Sleep(time.Millisecond) {
				if time.Since(began) > 200*time.Millisecond {
					t.Fatal("the row still waits")
				}
			}
			s.table.drained(t, 30*time.Second)
		})
	}
}

// A table that is emptied, and whose sequence is restarted, goes on at once and in order, as in a test suite beside a
// relay.
func TestSequenceRestartedSoon(t *testing.T) {
	eachOrder(t, func(t *testing.T, s *sim, next func() int64) {
		defer s.start()()
		s.flowFor(8*time.Second, next)
		time.Sleep(3 * time.Second)
		first := next()
		for i := range int64(5) {
			s.table.insert(first+i, fmt.Sprintf("a-%d", i), "k", "t")
		}
		s.table.drained(t, time.Second)
		before := len(s.All())
		for i := range int64(10) {
			s.table.insert(first+i, fmt.Sprintf("k-%d", i), "k", "t")
			time.Sleep(10 * time.Millisecond)
		}
		s.table.drained(t, time.Second)
		checkOrder(t, s.All()[before:])
	})
}

// Writers that stop ringing, as when many rows come, are no reason to read rows again that wait. A command is, and so
// is a connection that was lost, and with it perhaps the notification of a command.
func TestWhatMakesRowsBeReadAgain(t *testing.T) {
	d := &Destination{}
	r := &Relay{config: &Config{Destinations: []*Destination{d}}}
	for payload, want := range map[string]bool{
		outbox.Switched: false, "": false, outbox.Missed: true,
		outbox.Operated: true,
	} {
		r.notified(payload)
		if got := d.changed.Swap(false); got != want {
			t.Errorf("%q counts as a change by hand: %v, want %v", payload, got, want)
		}
	}
}
