package relay

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// simBell is a doorbell that each writer rings from a given time on.
type simBell struct{ since atomic.Pointer[time.Time] }

func newSimBell() *simBell {
	b := &simBell{}
	b.ring(time.Now())
	return b
}

func (b *simBell) ring(since time.Time) { b.since.Store(&since) }
func (b *simBell) Arm(bool)             {}
func (b *simBell) Armed() time.Time     { return *b.since.Load() }

// notedBell is a doorbell that notes whether writers are to ring.
type notedBell struct {
	deaf
	armed atomic.Bool
}

func (b *notedBell) Arm(rings bool) { b.armed.Store(rings) }

// While a destination is paused, writers ring for the others. If all are paused, no writer rings.
func TestWritersRingBesideAPausedDestination(t *testing.T) {
	t.Parallel()
	for paused, want := range []bool{true, true, false} {
		simulate(t, func(t *testing.T, s *sim) {
			b := &notedBell{}
			s.doorbell = b
			s.destinations = []*Destination{s.destination("a", s.Broker, "a"), s.destination("b", s.Broker, "b")}
			for _, d := range s.destinations[:paused] {
				d.paused.Store(true)
			}
			stop := s.start()
			defer stop()
			time.Sleep(5 * time.Second)
			if armed := b.armed.Load(); armed != want {
				t.Errorf("%d of 2 are paused: writers are to ring: %v", paused, armed)
			}
		})
	}
}

// Writers ring for destinations that own shards, beside one that owns none: its replicas are elsewhere.
func TestWritersRingBesideADestinationWithoutShards(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		b := &notedBell{}
		s.doorbell = b
		s.destinations = []*Destination{s.destination("a", s.Broker, "a"), s.destination("b", s.Broker, "b")}
		s.owners = []*simOwner{s.owner, newSimOwner(0)}
		defer s.start()()
		time.Sleep(5 * time.Second)
		if !b.armed.Load() {
			t.Error("no writer is to ring")
		}
	})
}

// idleAfter has the value that package engine has.
const idleAfter = 10 * time.Second

// economical simulates a relay with a working doorbell and nothing to do, until it economizes.
func economical(t *testing.T, f func(t *testing.T, s *sim, b *simBell)) {
	simulate(t, func(t *testing.T, s *sim) {
		b := newSimBell()
		s.doorbell, s.interval = b, 0
		s.fill(3, 3, "t")
		stop := s.start()
		defer stop()
		s.table.drained(t, time.Second)
		time.Sleep(idleAfter - 2*time.Second)
		if reads := s.looks(time.Second); reads < 15 {
			t.Errorf("within ten seconds of a row: %d reads in a second", reads)
		}
		time.Sleep(3 * time.Second)
		f(t, s, b)
	})
}

// looks returns how many reads there are in a period.
func (s *sim) looks(d time.Duration) (reads int) {
	synctest.Wait()
	reads = s.table.readCount()
	time.Sleep(d)
	synctest.Wait()
	return s.table.readCount() - reads
}

// An owner that found nothing for ten seconds looks at the table once a second, and sweeps it now and then.
func TestIdleOwnerLooksOnceASecond(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, _ *simBell) {
		if reads := s.looks(30 * time.Second); reads < 28 || reads > 36 {
			t.Errorf("in half a minute: %d reads", reads)
		}
	})
}

// A row for which nobody rings waits for at most a second. One that comes before rows that were read long ago waits
// for a sweep. Rows after it wait for less.
func TestIdleOwnerFindsRowsWithoutARing(t *testing.T) {
	for name, within := range map[string]time.Duration{"last": time.Second, "first": 12 * time.Second} {
		t.Run(name, func(t *testing.T) {
			economical(t, func(t *testing.T, s *sim, _ *simBell) {
				ordinal := int64(1000)
				if name == "first" {
					ordinal = -5
				}
				for n := range 5 {
					if n > 0 { // until it is idle again, and at any moment between two looks
						time.Sleep(time.Minute + idleAfter + time.Duration(n)*170*time.Millisecond)
					}
					s.table.insert(ordinal+int64(n), name+string(rune('a'+n)), "k", "t")
					s.table.drained(t, within+100*time.Millisecond)
				}
				s.table.insert(2000, "soon", "k", "t")
				s.table.drained(t, 200*time.Millisecond)
			})
		})
	}
}

// A ring brings a row at once.
func TestIdleOwnerIsRung(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, _ *simBell) {
		s.table.insert(1000, "new", "k", "t")
		s.config.wake(measure.SourceListen, false)
		s.table.drained(t, 20*time.Millisecond)
	})
}

// When the doorbell stops working, the owner reads as often as it would without one.
func TestIdleOwnerLosesItsDoorbell(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, b *simBell) {
		b.ring(time.Time{})
		s.config.wake(measure.SourceNone, false)
		time.Sleep(200 * time.Millisecond)
		if reads := s.looks(time.Second); reads < 15 {
			t.Errorf("%d reads in a second", reads)
		}
		b.ring(time.Now())
		time.Sleep(idleAfter / 2)
		if reads := s.looks(time.Second); reads < 15 {
			t.Errorf("soon after it works again: %d reads in a second", reads)
		}
		time.Sleep(idleAfter)
		if reads := s.looks(10 * time.Second); reads > 13 {
			t.Errorf("some time after: %d reads in ten seconds", reads)
		}
	})
}

// Without a doorbell, or with a poll interval that was set explicitly, nothing changes.
func TestIdleOwnerPollsWithoutADoorbell(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sim){
		"without a doorbell":          func(s *sim) { s.doorbell, s.interval = deaf{}, 0 },
		"with an interval of its own": func(s *sim) { s.doorbell, s.interval = newSimBell(), 50*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				change(s)
				stop := s.start()
				defer stop()
				time.Sleep(2 * idleAfter)
				if reads := s.looks(10 * time.Second); reads < 190 {
					t.Errorf("%d reads in ten seconds", reads)
				}
			})
		})
	}
}

// While rows flow, rests follow what looks cost the database. They do not follow a machine that is busy for a moment.
func TestRestsFollowTheCostOfLooks(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.table.setTook(200 * time.Microsecond)
		stop := s.start()
		defer stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for n := range 2500 {
				s.table.insert(int64(n), fmt.Sprint("row", n), fmt.Sprint("key", n%100), "t")
				time.Sleep(2 * time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		s.table.setTook(5 * time.Millisecond)
		if reads := s.looks(200 * time.Millisecond); reads < 20 {
			t.Errorf("soon after looks began to be slow: %d in 200 ms", reads)
		}
		time.Sleep(2 * time.Second)
		if reads := s.looks(time.Second); reads > 50 {
			t.Errorf("after a while: %d slow looks in a second", reads)
		}
		<-ended
	})
}

// A destination that refuses everything leaves half of the time to others while its tail goes over a backlog of which
// nothing can go: in a drain beside one that refused all 100,000 rows, the other destination kept 0.35 to 0.57 of its
// rate.
func TestBacklogOfWhichNothingCanGo(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const rows, took = 50_000, 5 * time.Millisecond
		for n := range rows {
			s.table.insert(int64(n), fmt.Sprint("row", n), fmt.Sprint("key", n%20), "missing")
		}
		s.Remove("missing")
		s.table.setTook(took)
		defer s.start()()
		time.Sleep(200 * time.Millisecond) // by then all keys wait
		if reads := s.looks(time.Second); reads < 50 || reads > int(time.Second/took)*6/10 {
			t.Errorf("%d reads in a second", reads)
		}
	})
}
