package feed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// While rows are few, each writer is to ring. While they are many, none is to ring. The relay does not change between
// the two all the time.
func TestEachWriterRingsWhileRowsAreFew(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	f := New(&order{}, 100, 1000, 50*time.Millisecond, 0, now)
	f.caughtUp = true
	// flow simulates rows at random times, at a rate per second. It returns for which part of the time writers were to
	// ring, and how often that changed.
	var ringing bool
	flow := func(perSecond float64) (part float64, changes int) {
		looks := 0
		for until := now.Add(10 * time.Second); now.Before(until); looks++ {
			now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / perSecond))
			f.active = now
			if rings := f.rings(1, now) > 0; rings != ringing {
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
		commit    time.Duration // what small commits take from now on; 0 if it is not known
	}{
		{1, true, 0},
		{200, true, 0},
		{1000, false, 0},
		{10_000, false, 0},
		{500, false, 0},
		{200, true, 0},
		{300, true, 0},
		{1000, true, 200 * time.Microsecond},
		{10_000, false, 0},
		{2000, false, 0},
		{1000, true, 0},
		{1000, false, time.Millisecond},
		{300, true, 0},
	} {
		for range f.wrote.times {
			if test.commit > 0 {
				f.Wrote(1, test.commit)
			}
		}
		part, changes := flow(test.perSecond)
		if changes > 2 || test.rings && part < 0.85 || !test.rings && part > 0.1 {
			t.Errorf("%v rows/s: writers ring %.0f %% of the time, with %d changes", test.perSecond, 100*part, changes)
		}
	}
	for range f.looks.times {
		f.looks.add(cheapRead + time.Microsecond)
	}
	if f.rings(1, now) > 0 {
		t.Error("they ring while reads are dear")
	}
	if now = now.Add(time.Second); f.rings(0, now) == 0 {
		t.Error("they do not ring for a relay that is idle")
	}
}

// If commits take long, fewer writers may ring, since they wait for one another.
func TestFewerWritersRingWhereCommitsTakeLong(t *testing.T) {
	f := New(&order{}, 100, 1000, 50*time.Millisecond, 0, time.Now())
	for _, test := range []struct {
		rows int
		took time.Duration
		most float64
	}{
		{1, 100 * time.Microsecond, busyRate},
		{1, 5 * time.Millisecond, 100},
		{flowRows, 50 * time.Millisecond, 10},
		{flowRows + 1, time.Millisecond, 10},
		{0, time.Millisecond, 10},
		{2, time.Millisecond, 500},
		{2, 300 * time.Microsecond, busyRate},
	} {
		for range f.wrote.times {
			f.Wrote(test.rows, test.took)
		}
		if most := f.MostRings(); math.Abs(most-test.most) > 0.1 {
			t.Errorf("%d rows in %v: %v a second may ring, want %v", test.rows, test.took, most, test.most)
		}
	}
	for range f.looks.times { // a mark is a statement, which takes about as long as a look, and a commit
		f.looks.add(250 * time.Microsecond)
	}
	for range f.wrote.times {
		f.Wrote(1, 750*time.Microsecond)
	}
	if most := f.MostRings(); math.Abs(most-1000) > 0.1 {
		t.Errorf("where commits take 500 µs: %v a second may ring", most)
	}
	f.looks = newLately(enough)
	for range f.wrote.times {
		f.Wrote(1, 300*time.Microsecond)
	}
	f.Wrote(1, time.Second)
	if most := f.MostRings(); most != busyRate {
		t.Errorf("one write that took long: %v a second may ring", most)
	}
	for range len(f.wrote.times) - 1 {
		f.Wrote(1, 5*time.Millisecond)
	}
	f.Wrote(1, 100*time.Microsecond)
	if most := f.MostRings(); most != 100 {
		t.Errorf("one write that was fast: %v a second may ring", most)
	}
}

// Around the rate from which writers need not ring, and while it is not clear how long commits take, writers do not start
// and stop to ring all the time: each change costs rows some milliseconds.
func TestWritersRingOrDoNotForAWhile(t *testing.T) {
	for _, perSecond := range []float64{200, 300, 350, 400, 450} {
		random := rand.New(rand.NewPCG(1, 2))
		now := time.Now()
		f := New(&order{}, 100, 1000, 50*time.Millisecond, 0, now)
		f.caughtUp = true
		var ringing bool
		changes := 0
		for until := now.Add(time.Minute); now.Before(until); {
			now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / perSecond))
			f.Wrote(1, time.Millisecond+time.Duration(random.ExpFloat64()*float64(time.Millisecond)))
			f.active = now
			if rings := f.rings(1, now) > 0; rings != ringing {
				ringing = rings
				changes++
			}
		}
		if changes > 30 {
			t.Errorf("at %v rows/s: %d changes in a minute", perSecond, changes)
		}
	}
}

// While each writer rings, there is no need to poll in between, except for a moment after the ringing has begun.
func TestLooksWhenItHasRung(t *testing.T) {
	now := time.Now()
	const interval = 50 * time.Millisecond
	f := New(&order{}, 100, 1000, interval, 0, now)
	poll := func(fresh int) (pause time.Duration) {
		f.Nudge()
		f.Next(now, 1000, 1<<20)
		started := now
		now = now.Add(cheapRead / 2)
		f.Read(Tail, outbox.Page{}, started, now)
		f.plan(fresh, now, true)
		pause = f.pace.due.Sub(now)
		return pause
	}
	for range f.looks.times {
		poll(1)
	}
	if pause := poll(0); pause > awakePause {
		t.Errorf("nobody rings: a pause of %v", pause)
	}
	f.armed = now
	if pause := poll(0); pause > awakePause {
		t.Errorf("each writer has just begun to ring: a pause of %v", pause)
	}
	now = now.Add(drowsyFor)
	for _, fresh := range []int{1, 0, 2 * flowRows} {
		if pause := poll(fresh); pause != interval {
			t.Errorf("each writer rings, after %d rows: a pause of %v", fresh, pause)
		}
		if f.Hint(); !f.nudged {
			t.Errorf("each writer rings, after %d rows: one that does brings no look", fresh)
		}
	}
	f.armed = time.Time{}
	if pause := poll(1); pause > awakePause {
		t.Errorf("nobody rings any more: a pause of %v", pause)
	}
}
