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
func (b *simBell) Up() bool             { return true }
func (b *simBell) Arm(float64)          {}
func (b *simBell) Armed() time.Time     { return *b.since.Load() }

// notedBell is a doorbell that notes whether writers are to ring.
type notedBell struct {
	deaf
	armed atomic.Bool
}

func (b *notedBell) Up() bool         { return true }
func (b *notedBell) Arm(most float64) { b.armed.Store(most > 0) }

// While a destination is paused, writers ring for the others. If all are paused, no writer rings.
func TestWritersRingBesideAPausedDestination(t *testing.T) {
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

// An owner learns from its commits how many writers may ring.
func TestOwnerNotesWhatCommitsTake(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		s.table.took = 10 * time.Millisecond
		stop := s.start()
		for n := range 20 {
			s.table.insert(int64(n+1), fmt.Sprint("row", n), "k", "t")
			s.table.drained(t, time.Second)
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		if most := s.loop.reads.feed.MostRings(); most > 51 { // a read takes as long, beside its row
			t.Errorf("commits take %v, and %v a second may ring", s.table.took, most)
		}
	})
}

// These constants have the values that package feed has.
const (
	idleAfter   = 10 * time.Second
	lookEvery   = time.Minute
	cheapGlance = 20 * time.Millisecond
	dearGlances = 3
)

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
		if reads, glances := s.looks(time.Second); glances > 0 || reads < 15 {
			t.Errorf("within ten seconds of a row: %d reads and %d glances in a second", reads, glances)
		}
		time.Sleep(2 * time.Second)
		f(t, s, b)
	})
}

// looks returns how many reads there are in a period, and how many of them are glances.
func (s *sim) looks(d time.Duration) (reads, glances int) {
	synctest.Wait()
	reads, glances = s.table.looks()
	time.Sleep(d)
	synctest.Wait()
	r, g := s.table.looks()
	return r - reads, g - glances
}

// An owner that found nothing for ten seconds glances at the table once a second, and does little else.
func TestIdleOwnerGlances(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, _ *simBell) {
		if reads, glances := s.looks(30 * time.Second); glances < 28 || glances > 31 || reads-glances > 3 {
			t.Errorf("in half a minute: %d reads, %d of them glances", reads, glances)
		}
		if reads, glances := s.looks(10 * time.Minute); reads-glances < 9 || reads-glances > 30 {
			t.Errorf("in ten minutes %d reads, %d of them glances: it has to look now and then", reads, glances)
		}
	})
}

// A row for which nobody rings waits for at most a second, wherever it is in the order, and rows after it wait for less.
func TestIdleOwnerFindsRowsWithoutARing(t *testing.T) {
	for name, ordinal := range map[string]int64{"last": 1000, "first": -5} {
		t.Run(name, func(t *testing.T) {
			economical(t, func(t *testing.T, s *sim, _ *simBell) {
				for n := range 5 {
					if n > 0 { // until it glances again, and at any moment between two glances
						time.Sleep(lookEvery + idleAfter + time.Duration(n)*170*time.Millisecond)
					}
					s.table.insert(ordinal+int64(n), name+string(rune('a'+n)), "k", "t")
					s.table.drained(t, time.Second+100*time.Millisecond)
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
		s.wakes <- measure.SourceListen
		s.table.drained(t, 20*time.Millisecond)
	})
}

// When the doorbell stops working, the owner reads as often as it would without one.
func TestIdleOwnerLosesItsDoorbell(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, b *simBell) {
		b.ring(time.Time{})
		s.wakes <- measure.SourceNone
		time.Sleep(200 * time.Millisecond)
		if reads, glances := s.looks(time.Second); reads < 15 || glances > 0 {
			t.Errorf("%d reads and %d glances in a second", reads, glances)
		}
		b.ring(time.Now())
		time.Sleep(idleAfter / 2)
		if reads, glances := s.looks(time.Second); reads < 15 || glances > 0 {
			t.Errorf("soon after it works again: %d reads and %d glances in a second", reads, glances)
		}
		time.Sleep(idleAfter)
		if reads, glances := s.looks(10 * time.Second); reads > 12 || glances < 9 {
			t.Errorf("some time after: %d reads and %d glances in ten seconds", reads, glances)
		}
	})
}

// Each glance sees the rows that can only wait. Glances therefore stop for some time, while reads and reconciliation scans continue.
func TestIdleOwnerDoesNotGlanceAtRowsThatWait(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, _ *simBell) {
		s.Remove("gone")
		s.table.insert(1000, "waits", "k", "gone")
		time.Sleep(30 * time.Second)
		reads, glances := s.looks(5 * time.Minute)
		if glances > 6 || reads < 5*60 {
			t.Errorf("in five minutes %d reads, %d of them glances", reads, glances)
		}
	})
}

// A glance that is expensive, because it steps over relayed rows that cannot be cleaned up, is not repeated soon.
func TestIdleOwnerDoesNotGlanceWhereThatIsDear(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, _ *simBell) {
		s.table.setTook(2 * cheapGlance)
		if _, glances := s.looks(5 * time.Minute); glances > 6*dearGlances {
			t.Errorf("in five minutes %d glances", glances)
		}
	})
}

// Without a doorbell, or with a poll interval that was set explicitly, nothing changes.
func TestIdleOwnerPollsWithoutADoorbell(t *testing.T) {
	for name, change := range map[string]func(*sim){
		"without a doorbell":          func(s *sim) { s.doorbell, s.interval = deaf{}, 0 },
		"with an interval of its own": func(s *sim) { s.doorbell, s.interval = newSimBell(), defaultPoll },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				change(s)
				stop := s.start()
				defer stop()
				time.Sleep(2 * idleAfter)
				if reads, glances := s.looks(10 * time.Second); reads < 190 || glances > 0 {
					t.Errorf("%d reads and %d glances in ten seconds", reads, glances)
				}
			})
		})
	}
}
