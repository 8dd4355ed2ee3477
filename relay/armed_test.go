package relay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// simBell is a doorbell that each writer rings from a time on.
type simBell struct{ since atomic.Pointer[time.Time] }

func newSimBell() *simBell {
	b := &simBell{}
	b.ring(time.Now())
	return b
}

func (b *simBell) ring(since time.Time) { b.since.Store(&since) }
func (b *simBell) Up() bool             { return true }
func (b *simBell) Arm(bool)             {}
func (b *simBell) Armed() time.Time     { return *b.since.Load() }

// While rows are few, each writer is to ring. While they are many, none need, and the relay does not change its mind all the time.
func TestEachWriterRingsWhileRowsAreFew(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	f := newFeed(newSimTable(), Limits{Batch: 100, Rows: 1000, Bytes: 1 << 20}, 50*time.Millisecond, now)
	f.caughtUp, f.cheap = true, true
	// flow lets rows come at random, so many a second, and returns for which part of the time writers were to ring, and how often that changed.
	var ringing bool
	flow := func(perSecond float64) (part float64, changes int) {
		looks := 0
		for until := now.Add(10 * time.Second); now.Before(until); looks++ {
			now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / perSecond))
			f.active = now
			if rings := f.rings(1, now); rings != ringing {
				ringing = rings
				changes++
			}
			if ringing {
				part++
			}
		}
		return part / float64(looks), changes
	}
	for _, test := range []struct {
		perSecond float64
		rings     bool
	}{{1, true}, {200, true}, {1000, false}, {10_000, false}, {500, false}, {200, true}, {300, true}} {
		part, changes := flow(test.perSecond)
		if changes > 2 || test.rings && part < 0.85 || !test.rings && part > 0.1 {
			t.Errorf("%v rows/s: writers ring %.0f %% of the time, with %d changes", test.perSecond, 100*part, changes)
		}
	}
	if f.cheap = false; f.rings(1, now) {
		t.Error("they ring while reads are dear")
	}
	if now = now.Add(time.Second); !f.rings(0, now) {
		t.Error("they do not ring for a relay that is idle")
	}
}

// Where a commit takes long, fewer writers may ring: they wait for one another.
func TestFewerWritersRingWhereCommitsTakeLong(t *testing.T) {
	f := newFeed(newSimTable(), Limits{Batch: 100, Rows: 1000, Bytes: 1 << 20}, 50*time.Millisecond, time.Now())
	for _, test := range []struct {
		rows int
		took time.Duration
		most float64
	}{{1, 100 * time.Microsecond, busyRate}, {1, 5 * time.Millisecond, 100}, {flowRows, 50 * time.Millisecond, 10}, {flowRows + 1, time.Millisecond, 10}, {0, time.Millisecond, 10}, {2, time.Millisecond, busyRate}} {
		for range f.wrote {
			f.written(test.rows, test.took)
		}
		if most := f.mostRings(); math.Abs(most-test.most) > 0.1 {
			t.Errorf("%d rows in %v: %v a second may ring, want %v", test.rows, test.took, most, test.most)
		}
	}
	f.written(1, time.Second)
	if most := f.mostRings(); most != busyRate {
		t.Errorf("one write that took long: %v a second may ring", most)
	}
}

// Commits of an owner tell how many writers may ring.
func TestOwnerNotesWhatCommitsTake(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		stop := s.start()
		for n := range 2 * len(armed{}.wrote) {
			s.table.insert(int64(n+1), fmt.Sprint("row", n), "k", "t")
			s.table.drained(t, time.Second)
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		if s.loop.feed.writes < len(armed{}.wrote) || s.loop.feed.wrote[0] <= 0 {
			t.Errorf("%d writes of %v", s.loop.feed.writes, s.loop.feed.wrote)
		}
	})
}

// Where each writer rings there is nothing to look for in between. For a moment after that begins there is.
func TestLooksWhenItHasRung(t *testing.T) {
	now := time.Now()
	const interval = 50 * time.Millisecond
	f := newFeed(newSimTable(), Limits{Batch: 100, Rows: 1000, Bytes: 1 << 20}, interval, now)
	poll := func(fresh int) (pause time.Duration) {
		f.nudge()
		f.next(now, 1000, 1<<20)
		started := now
		now = now.Add(cheapRead / 2)
		f.read(readWalk, outbox.Page{}, started, now)
		f.pace(fresh, now, true)
		pause = f.due.Sub(now)
		return pause
	}
	for range f.took {
		poll(1)
	}
	if pause := poll(0); pause > awakePause {
		t.Errorf("nobody rings: a pause of %v", pause)
	}
	f.armedSince = now
	if pause := poll(0); pause > awakePause {
		t.Errorf("each writer has just begun to ring: a pause of %v", pause)
	}
	now = now.Add(drowsyFor)
	for _, fresh := range []int{1, 0, 2 * flowRows} {
		if pause := poll(fresh); pause != interval {
			t.Errorf("each writer rings, after %d rows: a pause of %v", fresh, pause)
		}
		if f.hint(); !f.nudged {
			t.Errorf("each writer rings, after %d rows: one that does brings no look", fresh)
		}
	}
	f.armedSince = time.Time{}
	if pause := poll(1); pause > awakePause {
		t.Errorf("nobody rings any more: a pause of %v", pause)
	}
}

// economical simulates a relay with a doorbell that works and nothing to do, until it economizes.
func economical(t *testing.T, f func(t *testing.T, s *sim, b *simBell)) {
	simulate(t, func(t *testing.T, s *sim) {
		b := newSimBell()
		s.doorbell, s.idlePause = b, time.Second
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

// looks returns how many reads there are in a time, and how many of them are glances.
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

// A row for which nobody rings waits for no more than a second, wherever in the order it is, and others come sooner after it.
func TestIdleOwnerFindsRowsWithoutARing(t *testing.T) {
	for name, ordinal := range map[string]int64{"last": 1000, "first": -5} {
		t.Run(name, func(t *testing.T) {
			economical(t, func(t *testing.T, s *sim, _ *simBell) {
				for n := range 5 {
					if n > 0 { // until it glances again, and at any moment between two
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
		s.wakes <- sourceListen
		s.table.drained(t, 20*time.Millisecond)
	})
}

// When the doorbell works no longer, the owner looks as often as without.
func TestIdleOwnerLosesItsDoorbell(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, b *simBell) {
		b.ring(time.Time{})
		s.wakes <- sourceNone
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

// Rows that can only wait are seen by each glance. So there are no more glances for some time, but reads and sweeps.
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

// A glance that is dear, because it steps over what was relayed and cannot be cleaned up, is not repeated soon.
func TestIdleOwnerDoesNotGlanceWhereThatIsDear(t *testing.T) {
	economical(t, func(t *testing.T, s *sim, _ *simBell) {
		s.table.setTook(2 * cheapGlance)
		if _, glances := s.looks(5 * time.Minute); glances > 6*dearGlances {
			t.Errorf("in five minutes %d glances", glances)
		}
	})
}

// Without a doorbell, or with a poll interval that was set, nothing changes.
func TestIdleOwnerPollsWithoutADoorbell(t *testing.T) {
	for name, change := range map[string]func(*sim){
		"without a doorbell":          func(s *sim) { s.doorbell, s.idlePause = deaf{}, time.Second },
		"with an interval of its own": func(s *sim) { s.doorbell, s.idlePause = newSimBell(), s.interval },
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
