package feed

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A relay that has just become idle still polls often for a moment: a writer that looked before commits without waking
// it.
func TestReadsOftenWhileFallingAsleep(t *testing.T) {
	started := time.Now()
	const interval = 50 * time.Millisecond
	f := New(&order{}, 100, 1000, interval, 0, started)
	poll := func(fresh int, now time.Time) (pause time.Duration) {
		f.Next(now, 1000, 1<<20)
		ended := now.Add(cheapRead / 2)
		f.Read(Tail, outbox.Page{}, now, ended)
		f.plan(fresh, ended, true)
		return f.pace.due.Sub(ended)
	}
	longest := poll(1, started)
	for f.pace.due.Sub(started) < awakeFor+drowsyFor {
		longest = max(longest, poll(0, f.pace.due))
	}
	if asleep := f.idle(f.pace.due); !asleep || longest > awakePause {
		t.Errorf("asleep %v, and the longest pause till then is %v", asleep, longest)
	}
	for range 10 {
		longest = poll(0, f.pace.due)
	}
	if longest != interval {
		t.Errorf("then the pauses grow to %v", longest)
	}
}

// While many rows come, a hint does not bring the next read forward.
func TestHintsGiveWayToTheFlow(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 100, 1000, 50*time.Millisecond, 0, now)
	hinted := func(fresh int, took time.Duration) bool {
		started := now
		now = now.Add(took)
		f.Read(Tail, outbox.Page{}, started, now)
		f.plan(fresh, now, true)
		f.Hint()
		_, _, reads := f.Next(now, 1000, 1<<20)
		return reads
	}
	if !hinted(1, time.Millisecond) {
		t.Error("after a single row, a hint brings no read")
	}
	if hinted(flowRows+1, time.Millisecond) {
		t.Error("after many rows, a hint brings a read at once")
	}
	if !hinted(0, time.Millisecond) {
		t.Error("when the rows have stopped, a hint brings no read")
	}
	for range f.looks.times {
		hinted(flowRows+1, time.Second)
	}
	if !hinted(flowRows+1, time.Second) {
		t.Error("a hint brings no read although the next one is far away")
	}
}

// A relay rests in proportion to what its reads cost. A single slow read says nothing about the table: rows must not
// wait longer because the machine was busy for a moment.
func TestRestsAsReadsCost(t *testing.T) {
	now := time.Now()
	const interval, slow = 50 * time.Millisecond, time.Second
	f := New(&order{}, 10, 100, interval, 0, now)
	f.reconciliation.due = now.Add(time.Hour)
	read := func(took time.Duration) time.Duration {
		f.Nudge()
		f.Next(now, 100, 1<<20)
		started := now
		now = now.Add(took)
		f.Read(Tail, outbox.Page{}, started, now)
		f.plan(0, now, false)
		return f.pace.due.Sub(now)
	}
	for range f.looks.times {
		read(time.Millisecond)
	}
	if rest := read(slow); rest > interval {
		t.Errorf("after one slow read the relay rests for %v", rest)
	}
	var rest time.Duration
	for range f.looks.times {
		rest = read(slow)
	}
	if rest < RestShare*slow {
		t.Errorf("after many slow reads the relay rests for %v only", rest)
	}
	flow := func(took time.Duration) time.Duration {
		for range f.looks.times {
			read(took)
		}
		f.plan(1, now, true)
		return f.pace.due.Sub(now)
	}
	if rest := flow(30 * slow); rest < RestShare*slow {
		t.Errorf("while rows flow and reads are very slow the relay rests for %v only", rest)
	}
	if rest := flow(slow); rest < RestShare*slow {
		t.Errorf("while rows flow and reads are slow the relay rests for %v only", rest)
	}
	if rest := flow(cheapRead / 2); rest > flowShare*cheapRead/2 {
		t.Errorf("while rows flow and reads are cheap the relay rests for %v", rest)
	}
	if rest := flow(cheapRead * 11 / 10); rest > 5*cheapRead {
		t.Errorf("while rows flow and reads are not quite cheap the relay rests for %v", rest)
	}
}

// If there are not many rows per second, a large number of rows has only gathered while the relay rested. The relay
// does not rest as long again, or more rows would gather each time.
func TestRestsBrieflyAfterRowsThatHaveGathered(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 100, 1000, 50*time.Millisecond, 0, now)
	for _, test := range []struct {
		rate float64
		rest time.Duration
	}{{1000, flowShare * cheapRead}, {10_000, busyRest}} {
		for range f.looks.times {
			f.Nudge()
			f.Next(now, 100, 1<<20)
			f.Read(Tail, outbox.Page{}, now, now.Add(cheapRead))
			now = now.Add(cheapRead)
			f.rate = test.rate
			f.plan(2*flowRows, now, true)
		}
		if rest := f.pace.due.Sub(now); rest != test.rest {
			t.Errorf("at %v rows/s it rests for %v", test.rate, rest)
		}
	}
}

// Rows gather while the relay rests, and a read of more rows takes longer. The next rest must not be longer for that, or
// rows that were late once would stay late for as long as they flow.
func TestRestsAreNotLongerForTheRowsThatGathered(t *testing.T) {
	const look, row = 600 * time.Microsecond, 40 * time.Microsecond
	for perSecond, longest := range map[int]time.Duration{500: 5 * look, 1000: 5 * look, 10_000: 2 * busyRest} {
		now := time.Now()
		f := New(&order{}, 1000, 4000, 50*time.Millisecond, 0, now)
		f.reconciliation.due = now.Add(time.Hour)
		rest := time.Millisecond
		for read := range 200 {
			n := min(int(rest.Seconds()*float64(perSecond)), 1000)
			took := look + time.Duration(n)*row
			if read < 20 { // the machine is busy for a moment
				took += 2 * cheapRead
			}
			now = now.Add(rest)
			f.Nudge()
			f.Next(now, 4000, 1<<20)
			f.Read(Tail, outbox.Page{Rows: make([]outbox.Row, n)}, now, now.Add(took))
			now = now.Add(took)
			f.TailTaken(n, n, 0, time.Time{}, true, now)
			rest = f.pace.due.Sub(now)
		}
		if rest > longest {
			t.Errorf("at %d rows/s it rests for %v, want %v at most", perSecond, rest, longest)
		}
	}
}

// What reads cost the database decides how often they are made and whether writers ring, not how far away the database is.
func TestRestsDoNotDependOnTheDistance(t *testing.T) {
	const distance = 20 * cheapRead
	rest := func(distance time.Duration) (rest time.Duration, rings float64) {
		now := time.Now()
		f := New(&order{}, 100, 1000, 50*time.Millisecond, 0, now)
		f.reconciliation.due = now.Add(time.Hour)
		for range 2 * len(f.looks.times) {
			f.Nudge()
			f.Next(now, 1000, 1<<20)
			started := now
			now = now.Add(cheapRead/2 + distance)
			f.Read(Tail, outbox.Page{Rows: make([]outbox.Row, 1), Distance: distance}, started, now)
			f.Wrote(1, cheapRead/4+distance)
			rings = f.TailTaken(1, 1, 0, time.Time{}, true, now)
			rest = f.pace.due.Sub(now)
			now = now.Add(50 * time.Millisecond)
		}
		if most := f.MostRings(); most < 1000 || most >= busyRate {
			t.Errorf("%v away, with reads that take half a millisecond: %v a second may ring", distance, most)
		}
		return rest, rings
	}
	near, nearRings := rest(0)
	if far, rings := rest(distance); far != near || rings == 0 || nearRings == 0 {
		t.Errorf("%v away: it rests for %v and %v writers ring; nearby %v and %v", distance, far, rings, near, nearRings)
	}
}

// Where rows that wait are read again and again, the relay rests in proportion, with or without hints, so that the trouble
// costs the database little. It stays awake, so that writers need not ring. Rows that are met for the first time count
// like rows that flow, although they must wait: otherwise the first rows after a hundred thousand, of which some wait, would
// be late by up to a second.
func TestRestsForRowsThatWaitAndAreReadAgain(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 2, 100, 50*time.Millisecond, 0, now)
	last := int64(0)
	tail := func(took time.Duration, waiting, fresh int, again bool) (rest time.Duration) {
		f.Next(now, 100, 1<<20)
		if again {
			last -= 4
		}
		for pages := 2; pages > 0; pages-- {
			started := now
			now = now.Add(took)
			page := fullPage(last+1, last+2)
			page.More, page.Beyond = pages > 1, 1 // more rows come all the time
			page.Horizon = &outbox.Horizon{Highest: &page.Rows[1].Position.Ordinal}
			last += 2
			f.Read(Tail, page, started, now)
			f.TailTaken(2, fresh, waiting, time.Time{}, true, now)
		}
		if f.idle(now) {
			t.Error("it sleeps while rows come")
		}
		f.Hint()
		rest = f.Wait(now).Sub(now)
		now = f.Wait(now)
		return rest
	}
	const took = 5 * time.Millisecond
	for _, waiting := range []int{0, 1, 2} {
		if rest := tail(took, waiting, 2-waiting, false); rest > 0 {
			t.Errorf("while rows come of which %d of 2 must wait it rests for %v", waiting, rest)
		}
	}
	if rest := tail(took, 2, 0, true); rest != RestShare*2*took {
		t.Errorf("after two pages of waiting rows it rests for %v", rest)
	}
	if rest := tail(took, 1, 1, true); rest != flowShare*took {
		t.Errorf("when half of them wait and the others flow it rests for %v", rest)
	}
	if rest := tail(time.Second, 2, 0, true); rest != longestRest {
		t.Errorf("it rests for %v at most", rest)
	}
	if rest := tail(took/100, 1, 0, true); rest > 0 {
		t.Error("when few rows wait, a hint brings no read at once")
	}
}
