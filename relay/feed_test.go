package relay

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/outbox"
)

// fullPage is a page of rows with these ordinals, behind which there are more.
func fullPage(ordinals ...int64) outbox.Page {
	rows := of("a", ordinals...)
	return outbox.Page{Rows: rows, End: rows[len(rows)-1].Position, More: true}
}

// A sweep takes nothing that lies before the walk, so that it neither does its work nor passes it.
func TestSweepEndsWhereTheWalkHasBeen(t *testing.T) {
	now := time.Now()
	f := newFeed(newSimTable(), Limits{Batch: 10, Rows: 100, Bytes: 1 << 20}, time.Second, now)
	f.read(readWalk, fullPage(3, 5), now, now)
	f.sweeping, f.sinceSweep = true, walksPerSweep
	if q, kind, ok := f.next(now, 100, 1<<20); !ok || kind != readSweep || q.Upto == nil || *q.Upto != 5 {
		t.Errorf("the sweep's read is %+v, want one that ends before the walk's last row", q)
	}
}

// With priorities the walk gets on also when each read takes longer than a poll may wait, and the first page is
// looked at meanwhile. Rows at the beginning that are held would otherwise hide all others.
func TestWalkWithPrioritiesGetsOn(t *testing.T) {
	now := time.Now()
	table := newSimTable()
	table.ranked = true
	f := newFeed(table, Limits{Batch: 2, Rows: 100, Bytes: 1 << 20}, 50*time.Millisecond, now)
	var walked, heads int
	for i := int64(1); i <= 20; i++ {
		q, kind, ok := f.next(now, 100, 1<<20)
		if !ok {
			t.Fatal("nothing to read")
		}
		now = now.Add(time.Second)
		switch kind {
		case readHead:
			heads++
			if !q.After.IsZero() {
				t.Error("not the first page")
			}
			f.read(kind, fullPage(1, 2), now, now)
		case readWalk:
			if walked++; walked > 1 && q.After.Ordinal != int64(2*(walked-1)) {
				t.Fatalf("page %d is read after %d", walked, q.After.Ordinal)
			}
			f.read(kind, fullPage(int64(2*walked-1), int64(2*walked)), now, now)
			f.pace(0, now, false)
		default:
			t.Errorf("read of kind %d", kind)
		}
	}
	if walked < 5 || heads < 5 {
		t.Errorf("%d pages of the walk and %d looks at the head", walked, heads)
	}
}

// What is inserted while a walk goes on is left to the next walk, which begins far enough back to come by the older rows of
// the same keys that were committed behind the first one.
func TestWalkEndsWhereTheTableEndedWhenItBegan(t *testing.T) {
	now := time.Now()
	f := newFeed(newSimTable(), Limits{Batch: 2, Rows: 100, Bytes: 1 << 20}, time.Second, now)
	f.sweepDue = now.Add(time.Hour)
	next := func(what string) outbox.Query {
		t.Helper()
		now = now.Add(time.Millisecond)
		q, kind, ok := f.next(now, 100, 1<<20)
		if !ok || kind != readWalk {
			t.Fatalf("%s: %+v, kind %d, %t", what, q, kind, ok)
		}
		return q
	}
	take := func(page outbox.Page) {
		f.read(readWalk, page, now, now)
		f.pace(len(page.Rows), now, false)
	}
	if q := next("the first page"); !q.Horizon || q.Within != nil {
		t.Errorf("the first page does not ask where the table ends: %+v", q)
	}
	page, highest := fullPage(1, 3), int64(6)
	page.Horizon = &outbox.Horizon{Highest: &highest}
	take(page)
	if q := next("the second page"); q.Within != page.Horizon || q.After.Ordinal != 3 {
		t.Errorf("the second page does not end there: %+v", q)
	}
	last := fullPage(5, 6)
	last.More = false
	take(last)
	if q := next("the next walk, at once"); !q.After.IsZero() || !q.Horizon {
		t.Errorf("the next walk goes on with %+v", q)
	}

	// Once it is known what cannot be committed late any more, a poll reads from there, in a single page.
	take(outbox.Page{})
	now = now.Add(outbox.Late)
	f.nudge()
	next("a poll")
	take(outbox.Page{})
	f.nudge()
	if q := next("a later poll"); q.Recent == nil || q.Horizon {
		t.Errorf("it reads %+v", q)
	}
	take(outbox.Page{})
	left := of("a", 2)
	f.leftOut.add(&row{Row: &left[0], key: keyOf(&left[0])}) // by a sweep, say
	f.nudge()
	if q := next("after a row was left out"); q.Recent == nil || *q.Recent != 2 || !q.Horizon {
		t.Errorf("it reads %+v", q)
	}
	take(outbox.Page{})
	f.nudge()
	if q := next("the one after that"); q.Recent == nil || *q.Recent == 2 {
		t.Errorf("it reads %+v", q)
	}
	take(fullPage(8, 9))
	if q := next("behind a page that was full"); q.Recent == nil || !q.Horizon {
		t.Errorf("not a new walk: %+v", q)
	}
}

// A relay that has just gone to sleep still reads often for a moment: a writer that looked before commits without waking it.
func TestReadsOftenWhileFallingAsleep(t *testing.T) {
	started := time.Now()
	const interval = 50 * time.Millisecond
	f := newFeed(newSimTable(), Limits{Batch: 100, Rows: 1000, Bytes: 1 << 20}, interval, started)
	poll := func(fresh int, now time.Time) (pause time.Duration) {
		f.next(now, 1000, 1<<20)
		ended := now.Add(cheapRead / 2)
		f.read(readWalk, outbox.Page{}, now, ended)
		f.pace(fresh, ended, true)
		return f.due.Sub(ended)
	}
	longest := poll(1, started)
	for f.due.Sub(started) < awakeFor+drowsyFor {
		longest = max(longest, poll(0, f.due))
	}
	if asleep := f.idle(f.due); !asleep || longest > awakePause {
		t.Errorf("asleep %v, and the longest pause till then is %v", asleep, longest)
	}
	for range 10 {
		longest = poll(0, f.due)
	}
	if longest != interval {
		t.Errorf("then the pauses grow to %v", longest)
	}
}

// While rows come in numbers, a hint does not bring the next read forward.
func TestHintsGiveWayToTheFlow(t *testing.T) {
	now := time.Now()
	f := newFeed(newSimTable(), Limits{Batch: 100, Rows: 1000, Bytes: 1 << 20}, 50*time.Millisecond, now)
	hinted := func(fresh int, took time.Duration) bool {
		started := now
		now = now.Add(took)
		f.read(readWalk, outbox.Page{}, started, now)
		f.pace(fresh, now, true)
		f.hint()
		_, _, reads := f.next(now, 1000, 1<<20)
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
	for range len(f.took) {
		hinted(flowRows+1, time.Second)
	}
	if !hinted(flowRows+1, time.Second) {
		t.Error("a hint brings no read although the next one is far away")
	}
}

// A relay rests in proportion to what its reads cost. One slow read alone tells nothing about the table: rows must not
// wait for longer because the machine was busy for a moment.
func TestRestsAsReadsCost(t *testing.T) {
	now := time.Now()
	const interval, slow = 50 * time.Millisecond, time.Second
	f := newFeed(newSimTable(), Limits{Batch: 10, Rows: 100, Bytes: 1 << 20}, interval, now)
	f.sweepDue = now.Add(time.Hour)
	read := func(took time.Duration) time.Duration {
		f.nudge()
		f.next(now, 100, 1<<20)
		started := now
		now = now.Add(took)
		f.read(readWalk, outbox.Page{}, started, now)
		f.pace(0, now, false)
		return f.due.Sub(now)
	}
	for range len(f.took) {
		read(time.Millisecond)
	}
	if rest := read(slow); rest > interval {
		t.Errorf("after one slow read the relay rests for %v", rest)
	}
	var rest time.Duration
	for range len(f.took) {
		rest = read(slow)
	}
	if rest < restShare*slow {
		t.Errorf("after many slow reads the relay rests for %v only", rest)
	}
	flow := func(took time.Duration) time.Duration {
		for range len(f.took) {
			read(took)
		}
		f.pace(1, now, true)
		return f.due.Sub(now)
	}
	if rest := flow(slow); rest < restShare*slow {
		t.Errorf("while rows flow and reads are slow the relay rests for %v only", rest)
	}
	if rest := flow(cheapRead / 2); rest > flowShare*cheapRead/2 {
		t.Errorf("while rows flow and reads are cheap the relay rests for %v", rest)
	}
}

// While rows come for a topic that is missing, all of the last seconds' are read each time, for nothing. The relay rests
// in proportion, hints or not, so that the trouble costs the database little, and stays awake, so that writers need not ring.
func TestRestsWhileRowsWait(t *testing.T) {
	now := time.Now()
	f := newFeed(newSimTable(), Limits{Batch: 2, Rows: 100, Bytes: 1 << 20}, 50*time.Millisecond, now)
	last := int64(0)
	walk := func(took time.Duration, waiting, fresh int) (rest time.Duration) {
		f.next(now, 100, 1<<20)
		for pages := 2; pages > 0; pages-- {
			started := now
			now = now.Add(took)
			page := fullPage(last+1, last+2)
			page.More, page.Beyond = pages > 1, 1 // more rows come all the time
			page.Horizon = &outbox.Horizon{Highest: &page.Rows[1].Position.Ordinal}
			last += 2
			f.read(readWalk, page, started, now)
			f.passed(waiting, 2)
			f.pace(fresh, now, true)
		}
		if f.idle(now) {
			t.Error("it sleeps while rows come")
		}
		f.hint()
		rest = f.wait(now).Sub(now)
		now = f.wait(now)
		return rest
	}
	const took = 5 * time.Millisecond
	if rest := walk(took, 0, 2); rest > 0 {
		t.Errorf("while rows flow that need not wait it rests for %v", rest)
	}
	if rest := walk(took, 2, 0); rest != restShare*2*took {
		t.Errorf("after two pages of waiting rows it rests for %v", rest)
	}
	if rest := walk(took, 1, 1); rest != flowShare*took {
		t.Errorf("when half of them wait and the others flow it rests for %v", rest)
	}
	if rest := walk(time.Second, 2, 0); rest != longestRest {
		t.Errorf("it rests for %v at most", rest)
	}
	if rest := walk(took/100, 1, 0); rest > 0 {
		t.Error("when few rows wait, a hint brings no read at once")
	}
}
