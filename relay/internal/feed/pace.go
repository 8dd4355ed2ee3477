package feed

import (
	"time"
)

// pace is when to read again, and what tells.
type pace struct {
	interval time.Duration // the longest pause
	due      time.Time     // of the next read
	pause    time.Duration
	took     lately        // the reads
	waited   time.Duration // that it took in this walk to read rows that must wait
	nudged   bool          // read at once
	steady   bool          // many rows come at once, and the next read is not far
	active   time.Time     // when there were new rows last
}

// ShortestPause is the shortest time between two polls.
const ShortestPause = time.Millisecond

// RestShare is how many times as long as something took that is of no use to the flow of rows the relay rests after it.
const RestShare = 20

const (
	awakePause  = 4 * time.Millisecond
	awakeFor    = 100 * time.Millisecond
	drowsyFor   = 20 * time.Millisecond
	flowShare   = 4 // instead of RestShare while rows flow, reads are cheap
	cheapRead   = time.Millisecond
	flowRows    = 16          // and no more rows than these come at once: large batches cost the database less
	flowRate    = 2000        // rows a second, up to which many at once have only gathered because it rested
	longestRest = time.Second // while rows wait
)

// Walked takes note of what became of a page of the walk: of so many rows, some were fresh, and some must wait, for their topic or their
// key. armed is since when each writer rings, zero if that is not so; up says whether writers can ring at all. It reports whether each
// writer is to ring from now on.
func (f *Feed) Walked(rows, fresh, waiting int, armed time.Time, up bool, ended time.Time) (rings bool) {
	if waiting > 0 {
		f.waited += f.took.last() * time.Duration(waiting) / time.Duration(rows)
	}
	f.armed = armed
	f.plan(fresh, ended, up)
	return f.rings(fresh+waiting, ended)
}

// plan sets when to read again, after a walk that found so many new rows. An idle relay's pauses grow; for a short while after each row
// they stay short if writers can wake it afterwards. While each writer rings there is no need for that: a row is looked for when it has rung,
// and the pauses are as long as they may be.
func (f *Feed) plan(fresh int, ended time.Time, wakeable bool) {
	longest, rung := f.interval, f.rung(ended)
	awake := wakeable && !rung && !f.idle(ended.Add(-drowsyFor))
	f.found += fresh
	if f.found > 0 {
		f.active = ended
	}
	switch f.economize(ended); {
	case f.economical:
		longest = f.idlePause
	case awake:
		longest = min(longest, awakePause)
	}
	switch {
	case rung:
		f.pause = longest
	case f.found > 0:
		f.pause = ShortestPause
	default:
		f.pause = min(2*f.pause, longest)
	}
	rest := RestShare * f.took.shortest()
	f.cheap = rest <= RestShare*cheapRead
	switch {
	case f.cheap && fresh > 0 && (fresh <= flowRows || f.rate < flowRate):
		rest /= RestShare / flowShare
	case f.cheap && fresh == 0 && awake:
		rest = min(rest, awakePause) // nobody wakes the relay meanwhile
	}
	f.steady = fresh > flowRows && rest <= f.interval && !rung || f.waited > cheapRead
	rest = max(rest, f.pause)
	if f.cut && f.found > 0 {
		rest, f.cut = 0, false
	}
	f.pace.due = ended.Add(max(rest, f.waitingRest(fresh)))
	if f.caughtUp && f.order.Ordinal() {
		f.Late.MarkEverySecond(ended, f.highest)
	}
}

// waitingRest is how long the relay rests because it has read rows that must wait, for a topic that is missing, say. More of them
// may come all the time, and where it cannot be told which are new, it reads those of the last seconds each time.
func (f *Feed) waitingRest(fresh int) time.Duration {
	share := time.Duration(RestShare)
	if fresh > 0 {
		share = flowShare
	}
	return min(share*f.waited, longestRest)
}

// idle reports whether there have been no new rows for a while.
func (f *Feed) idle(now time.Time) bool { return f.caughtUp && now.Sub(f.active) > awakeFor }

// Stir notes that rows came by other reads: the owner is not idle.
func (f *Feed) Stir(now time.Time) { f.active = now }

// Hint says that there may be new rows. They are read at once, but not while rows come in numbers: each writer's hint would
// bring a few of them alone.
func (f *Feed) Hint() {
	if !f.steady {
		f.Nudge()
	}
}

// Nudge lets the next read happen at once.
func (f *Feed) Nudge() { f.nudged = true }

// Retry lets a read that failed be made again after a pause.
func (f *Feed) Retry(at time.Time) { f.pace.due, f.nudged = at, false }

// OutOfTime notes that a read was not answered in its time and rests. A sweep goes on later where it is; the walk does not wait for it.
func (f *Feed) OutOfTime(k Kind, rest time.Time) {
	switch k {
	case Sweep:
		f.sweep.rest, f.sweep.walks = rest, 0
	case Walk, Head, Guard, Glance:
		f.Retry(rest)
	}
}

// Wait returns when the feed wants to read again, if there is room.
func (f *Feed) Wait(now time.Time) time.Time {
	if !f.caughtUp || f.nudged {
		return now
	}
	s := &f.sweep
	switch {
	case s.walks == 0 || !f.Sweeps() || f.Glancing(now):
	case s.under && s.rest.Before(f.pace.due):
		return s.rest
	case !s.under && s.due.Before(f.pace.due):
		return s.due
	}
	return f.pace.due
}
