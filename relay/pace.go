package relay

import (
	"slices"
	"time"
)

const (
	shortestPause = time.Millisecond
	awakePause    = 4 * time.Millisecond
	awakeFor      = 100 * time.Millisecond
	drowsyFor     = 20 * time.Millisecond
	restShare     = 20 // the relay rests so many times as long as a read took,
	flowShare     = 4  // or so many times while rows flow, reads are cheap
	cheapRead     = time.Millisecond
	flowRows      = 16          // and no more rows than these come at once: large batches cost the database less
	flowRate      = 2000        // rows a second, up to which many at once have only gathered because it rested
	longestRest   = time.Second // while rows wait
)

// pace sets when to read again, after a walk that found so many new rows. An idle relay's pauses grow; for a short while after each row
// they stay short if writers can wake it afterwards. While each writer rings there is no need for that: a row is looked for when it has rung,
// and the pauses are as long as they may be.
func (f *feed) pace(fresh int, ended time.Time, wakeable bool) {
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
		f.pause = shortestPause
	default:
		f.pause = min(2*f.pause, longest)
	}
	// The shortest of the last reads tells what the table costs; a longer one may have met a busy machine.
	rest := restShare * slices.Min(f.took[:])
	f.cheap = rest <= restShare*cheapRead
	switch {
	case f.cheap && fresh > 0 && (fresh <= flowRows || f.rate < flowRate):
		rest /= restShare / flowShare
	case f.cheap && fresh == 0 && awake:
		rest = min(rest, awakePause) // nobody wakes the relay meanwhile
	}
	f.steady = fresh > flowRows && rest <= f.interval && !rung || f.waited > cheapRead
	rest = max(rest, f.pause)
	if f.cut && f.found > 0 {
		rest, f.cut = 0, false
	}
	f.due = ended.Add(max(rest, f.waitingRest(fresh)))
	if f.caughtUp && f.table.Ordinal() {
		f.late.MarkEverySecond(ended, f.highest)
	}
}

// waitingRest is how long the relay rests because it has read rows that must wait, for a topic that is missing, say. More of them
// may come all the time, and where it cannot be told which are new, it reads those of the last seconds each time.
func (f *feed) waitingRest(fresh int) time.Duration {
	share := time.Duration(restShare)
	if fresh > 0 {
		share = flowShare
	}
	return min(share*f.waited, longestRest)
}

// idle reports whether there have been no new rows for a while.
func (f *feed) idle(now time.Time) bool { return f.caughtUp && now.Sub(f.active) > awakeFor }

// hint says that there may be new rows. They are read at once, but not while rows come in numbers: each writer's hint would
// bring a few of them alone.
func (f *feed) hint() {
	if !f.steady {
		f.nudge()
	}
}

// nudge lets the next read happen at once.
func (f *feed) nudge() { f.nudged = true }

// retry lets a read that failed be made again after a pause.
func (f *feed) retry(at time.Time) { f.due, f.nudged = at, false }

// outOfTime notes that a read was not answered in its time and rests. A sweep goes on later where it is; the walk does not wait for it.
func (f *feed) outOfTime(k kind, rest time.Time) {
	switch k {
	case readSweep:
		f.sweepRest, f.sinceSweep = rest, 0
	case readWalk, readHead, readGuard, readGlance:
		f.retry(rest)
	}
}

// wait returns when the feed wants to read again, if there is room.
func (f *feed) wait(now time.Time) time.Time {
	if !f.caughtUp || f.nudged {
		return now
	}
	switch {
	case f.sinceSweep == 0 || !f.sweeps() || f.glancing(now):
	case f.sweeping && f.sweepRest.Before(f.due):
		return f.sweepRest
	case !f.sweeping && f.sweepDue.Before(f.due):
		return f.sweepDue
	}
	return f.due
}

// passed takes note that so many of the rows of the page that was read last must wait, for their topic or their key.
func (f *feed) passed(waiting, rows int) {
	if waiting > 0 {
		f.waited += f.took[(f.reads-1)%len(f.took)] * time.Duration(waiting) / time.Duration(rows)
	}
}
