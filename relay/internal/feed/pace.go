package feed

import (
	"time"
)

// pace decides when to read again.
type pace struct {
	interval time.Duration // longest pause
	due      time.Time     // time of the next read
	pause    time.Duration
	distance time.Duration // time that requests to the database and its answers are on the way
	took     time.Duration // what the last read cost the database
	looks    lately        // what the reads cost, without their rows
	again    int           // rows of the last page that an earlier tail scan may have met
	waited   time.Duration // time that this tail scan took to read such rows that must wait
	nudged   bool          // read at once
	steady   bool          // many rows come at once, and the next read is not far away
	active   time.Time     // when there were last new rows
}

// ShortestPause is the shortest time between two polls.
const ShortestPause = time.Millisecond

// RestShare is the rest after work that is of no use to the flow of rows, as a multiple of the time it took.
const RestShare = 20

// RestAfter returns how long a read rests that goes over all rows of a kind, after it found nothing new among a number of them: at
// most a thousand of them are read in a second. Each second, 10,000 failed rows took two thirds of what was read in the table while
// 500 other rows a second were relayed (test/bench, trouble).
func RestAfter(rows int) time.Duration { return min(time.Duration(rows)*time.Millisecond, time.Minute) }

const (
	awakePause  = 4 * time.Millisecond
	awakeFor    = 100 * time.Millisecond
	drowsyFor   = 20 * time.Millisecond
	flowShare   = 4 // replaces RestShare while rows flow and reads are cheap; see flowRest
	cheapRead   = time.Millisecond
	rowTime     = 50 * time.Microsecond  // longest time that a row takes in a read; 17 µs were measured
	leastCost   = 100 * time.Microsecond // since the distance is not known exactly
	lookRows    = 24                     // number of rows that take about as long as a read without rows
	flowRows    = 16                     // largest number of rows at once for that, since large batches cost the database less
	flowRate    = 2000                   // rows per second up to which many rows at once have only gathered because the relay rested
	busyRest    = 25 * time.Millisecond  // shortest rest while more rows flow: 100 batches per second cost writers a tenth of their rate
	longestRest = time.Second            // because of rows that wait
)

// read records how long a read took. Rests are proportional to what a look at the table costs the database, without the
// rows, and without the way there. If the rows counted, a long rest, in which many rows gather, would make the next rest
// long, too: at 1,000 rows/s, rows were late by 20 ms or more for seconds after a moment in which the machine was busy.
// If the way counted, a database that is 5 ms away would be asked ten times a second (test/bench, latency).
func (p *pace) read(took time.Duration, rows int) {
	p.took = p.cost(took)
	p.looks.add(max(p.took-time.Duration(rows)*rowTime, p.took*lookRows/time.Duration(lookRows+rows)))
}

// cost returns what a request that took some time cost the database.
func (p *pace) cost(took time.Duration) time.Duration { return max(took-p.distance, leastCost) }

// cheap reports whether the last reads were cheap.
func (p *pace) cheap() bool { return p.looks.shortest() <= cheapRead }

// TailTaken records the outcome of a page of the tail scan: the number of its rows, of those that were fresh, and of those that
// must wait because of their topic or key. armed is since when each writer rings, or zero if writers do not ring. up
// says whether writers can ring at all. TailTaken returns how many writers may ring per second from now on, or 0 if none is to ring.
//
// A row that must wait and is met for the first time counts as a new row. Reading it is no loss: each row is read once.
func (f *Feed) TailTaken(rows, fresh, waiting int, armed time.Time, up bool, ended time.Time) (rings float64) {
	again := min(waiting, f.again)
	if waiting > 0 {
		f.Late.Waits(ended)
	}
	if again > 0 {
		f.waited += f.took * time.Duration(again) / time.Duration(rows)
	}
	if !f.order.Delays() {
		f.reconciliation.tailTaken(waiting, !f.caughtUp, ended)
	}
	f.armed = armed
	came := fresh + waiting - again
	f.plan(came, ended, up)
	return f.rings(came, ended)
}

// plan sets when to read again, after a tail scan that found a number of new rows. The pauses of an idle relay grow. For a
// short while after each row they stay short, if writers can wake the relay afterwards. While each writer rings, that
// is not needed: a row is looked for when its writer has rung, and the pauses are as long as they may be.
func (f *Feed) plan(came int, ended time.Time, wakeable bool) {
	longest, rung := f.interval, f.rung(ended)
	awake := wakeable && !rung && !f.idle(ended.Add(-drowsyFor))
	f.found += came
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
	rest := RestShare * f.looks.shortest()
	switch {
	case came > 0 && (came <= flowRows || f.rate < flowRate):
		rest = flowRest(f.looks.shortest())
	case came > flowRows:
		rest = max(rest, min(busyRest, f.interval))
	case f.cheap() && came == 0 && awake:
		rest = min(rest, awakePause) // no writer wakes the relay meanwhile
	}
	f.steady = came > flowRows && rest <= f.interval && !rung || f.waited > cheapRead
	rest = max(rest, f.pause)
	if f.cut && f.found > 0 {
		rest, f.cut = 0, false
	}
	f.pace.due = ended.Add(max(rest, f.waitingRest(came)))
	if f.caughtUp && f.order.Ordinal() {
		f.Late.MarkEverySecond(ended, f.highest)
	}
}

// flowRest returns how long to rest while rows flow, after looks that cost so much. The share grows with the cost, so that
// a table that is a little dearer than a cheap one is not suddenly read five times less often.
func flowRest(look time.Duration) time.Duration {
	if look >= RestShare/flowShare*cheapRead {
		return RestShare * look
	}
	return flowShare * max(look, look*look/cheapRead)
}

// waitingRest returns how long the relay rests because it has read rows again that must wait, for a topic that is missing,
// for instance. Where new rows cannot be distinguished, it reads all those of the last seconds each time.
func (f *Feed) waitingRest(came int) time.Duration {
	share := time.Duration(RestShare)
	if came > 0 {
		share = flowShare
	}
	return min(share*f.waited, longestRest)
}

// idle reports whether there have been no new rows for a while.
func (f *Feed) idle(now time.Time) bool { return f.caughtUp && now.Sub(f.active) > awakeFor }

// Stir notes that rows came by other reads: the owner is not idle.
func (f *Feed) Stir(now time.Time) { f.active = now }

// Hint says that there may be new rows. They are read at once, unless many rows are coming: then the read for each
// writer's hint would bring only a few of them.
func (f *Feed) Hint() {
	if !f.steady {
		f.Nudge()
	}
}

// Nudge makes the next read happen at once.
func (f *Feed) Nudge() { f.nudged = true }

// Retry makes a read that failed be made again after a pause.
func (f *Feed) Retry(at time.Time) { f.pace.due, f.nudged = at, false }

// OutOfTime notes that a read was not answered in its time and rests. A reconciliation scan goes on from its place later; the tail scan
// does not wait for it.
func (f *Feed) OutOfTime(k Kind, rest time.Time) {
	switch k {
	case Reconcile:
		f.reconciliation.rest, f.reconciliation.tailReads = rest, 0
	case Tail, Head, Guard, Glance:
		f.Retry(rest)
	default: // not a kind of the feed
	}
}

// Wait returns when the feed wants to read again, if there is room.
func (f *Feed) Wait(now time.Time) time.Time {
	if !f.caughtUp || f.nudged {
		return now
	}
	s := &f.reconciliation
	switch {
	case s.tailReads == 0 || !f.Reconciles() || f.Glancing(now):
	case s.under && s.rest.Before(f.pace.due):
		return s.rest
	case !s.under && s.due.Before(f.pace.due):
		return s.due
	}
	return f.pace.due
}
