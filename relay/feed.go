package relay

import (
	"math"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/late"
)

// feed decides which rows to read next, and when. It makes three kinds of reads:
//
//   - next: on from the cursor, while there is more;
//   - recent: once everything has been walked, from a low-water bound to the end, so that rows that commit
//     late are seen at the next read, while the dead index entries before the bound cost nothing; rows that the last
//     walk has returned are left out, which is told by their transactions: they are in flight, or their keys wait;
//   - sweep: from the very beginning up to where the walk has been, a page now and then, so that
//     nothing can be missed for ever; more seldom where it finds nothing and costs much.
//
// While it economizes it only glances at the table instead, whether there is anything to read ([armed]).
//
// A walk that takes several pages sees the table at several times. It must not take the younger row of a key from a late page
// when an older one was committed behind its back, to an early page. So it leaves out what was not committed, or not even
// inserted, when it began ([late.Commits.LeaveOut]). The next walk begins at the bound again and comes by both.
//
// Where a new row may come before older ones, the walk begins anew at every poll instead; during a long walk
// the first page is looked at now and then, and every eighth read goes in table order ([guard]).
//
// Only the loop touches it.
type feed struct {
	table     Table
	batch     int
	least     int           // rows of room for which a read is worth its while
	interval  time.Duration // the longest pause
	cursor    outbox.Position
	caughtUp  bool
	restarted time.Time // when the walk last began at the beginning

	highest int64 // ordinal
	late    *late.Commits
	armed

	guard   guard           // of a walk by priority
	began   time.Time       // when the walk began, with its first page
	opening bool            // that page is being read
	long    bool            // the walk is expected to take more than that page
	within  *outbox.Horizon // of a walk that does
	cut     bool            // there may be more beyond the end of the walk
	found   int             // new rows in this walk
	waited  time.Duration   // that it took to read rows that must wait

	due    time.Time // of the next read
	pause  time.Duration
	took   [8]time.Duration // the last reads
	reads  int
	nudged bool      // read at once
	steady bool      // many rows come at once, and the next read is not far
	active time.Time // when there were new rows last

	sweeping    bool
	sweepAt     outbox.Position
	sweepWithin *outbox.Horizon // nil before its first page
	sweepDue    time.Time
	sweepRest   time.Time // no page of it is read before
	sweepSpent  time.Duration
	sweepFound  int
	inVain      int // sweeps in a row that found nothing
	strays      strays
	sinceSweep  int // reads since the last page of the sweep

	average int64 // bytes of a row, about
}

type kind uint8

const (
	readWalk kind = iota // next and recent
	readSweep
	readHead   // the first page, during a walk
	readGlance // whether there is anything to read
	readFailed // not the feed's, as those that follow, see failures,
	readScan   // scan,
	readTrial  // trials,
	readDue    // due rows
	readGuard  // the walk's by priority that is made in table order
)

const (
	sweepEvery     = 5 * time.Second
	sweepOften     = 500 * time.Millisecond // for tables whose rows can become due later
	walksPerSweep  = 8                      // while there is a backlog
	sweepRestShare = 50                     // so many times what a sweep took, twice that with each that finds nothing
	longestSweep   = time.Minute
	mostInVain     = 5 // that count: a sweep that costs next to nothing never becomes seldom
)

func newFeed(table Table, limits Limits, interval time.Duration, now time.Time) *feed {
	f := &feed{late: late.New(), table: table, batch: limits.Batch, interval: interval, highest: math.MinInt64, average: 1024, pause: shortestPause}
	f.idlePause = interval
	f.fit(limits.Rows)
	f.sweepDue, f.restarted = now.Add(f.sweepPause()), now
	return f
}

// fit takes note of how many rows there can be room for: fewer than the limit while some stay in flight that cannot be written.
func (f *feed) fit(rows int) { f.least = max(1, min(f.batch, rows/2)) }

// next returns the read to make now, if any, given the room there is.
func (f *feed) next(now time.Time, rows int, bytes int64) (outbox.Query, kind, bool) {
	if bytes <= 0 || rows < f.least {
		return outbox.Query{}, readWalk, false
	}
	q := outbox.Query{Limit: min(rows, f.rows(bytes)), Bytes: bytes}
	if f.sweepTurn(now) {
		upto := f.highest // what lies behind is the walk's, in order
		if f.caughtUp && upto < math.MaxInt64 {
			upto++ // more rows than a page may have the same order value
		}
		q.After, q.Upto = f.sweepAt, &upto
		q.Horizon, q.Within = f.sweepWithin == nil, f.sweepWithin
		return q, readSweep, true
	}
	if f.caughtUp && !f.nudged && now.Before(f.due) {
		return q, readWalk, false
	}
	if !f.nudged && f.glancing(now) {
		q.Glance = true
		return q, readGlance, true
	}
	f.nudged = false
	f.opening = f.caughtUp || f.cursor.IsZero()
	restart := f.table.Ranked() && now.Sub(f.restarted) >= f.interval
	switch {
	case f.guards():
		return f.guard.query(q), readGuard, true
	case restart && !f.caughtUp: // the walk goes on: rows that are held may fill its first pages
		return q, readHead, true
	case restart, f.caughtUp && !f.table.Ordinal():
		f.cursor, f.restarted = outbox.Position{}, now
	case f.caughtUp:
		if f.cursor = (outbox.Position{}); f.late.Tail(&q, f.long) {
			return q, readWalk, true
		}
	}
	if q.After = f.cursor; q.After.IsZero() {
		f.guard = guard{}
	}
	switch {
	case !f.sweeps():
	case f.opening:
		f.late.Whole()
		q.Horizon = true
	default:
		q.Within = f.within
	}
	return q, readWalk, true
}

// rows returns how many rows are read at once into so many bytes.
func (f *feed) rows(bytes int64) int { return int(min(int64(f.batch), max(1, bytes/f.average))) }

// tooLong takes note of a read that took too long: its rows may have been as large as there was room for.
func (f *feed) tooLong(q outbox.Query) { f.average = max(f.average, q.Bytes/int64(q.Limit)) }

// read takes note of a page. It reports whether the rows may be taken; if not, they are read again at once.
func (f *feed) read(k kind, page outbox.Page, started, ended time.Time) bool {
	took := ended.Sub(started)
	if k == readGlance {
		f.glanced(page, took, ended)
		return true
	}
	f.took[f.reads%len(f.took)] = took
	f.reads++
	f.late.Date(&page.Snapshot)
	n := len(page.Rows)
	if n > 0 {
		mean := page.Bytes / int64(n)
		f.average = max(64, (3*f.average+mean)/4, mean/2)
	}
	switch k {
	case readSweep:
		f.sweepSpent += took
		f.sinceSweep = 0
		f.sweepAt = page.End
		if page.Horizon != nil {
			f.sweepWithin = page.Horizon
		}
	case readHead:
		f.restarted = ended
		f.guard.reads++
	case readGuard:
		if f.guard.read(page) { // the walk begins anew, too
			f.cursor, f.restarted = outbox.Position{}, ended
		}
	default:
		if f.opening && f.sweeps() {
			if !f.late.MayTake(&page.Ended) {
				f.cursor, f.caughtUp, f.nudged = outbox.Position{}, true, true
				return false
			}
			if !f.abandons(page) {
				f.late.Opened(page.Snapshot)
			}
		}
		if f.opening {
			f.waited = 0
			f.late.TakeLeftOut()
		}
		f.sinceSweep++
		f.guard.reads++
		f.see(page.Rows, ended)
		f.cursor, f.caughtUp = page.End, !page.More
		if f.sweeps() {
			if abandoned := f.abandons(page); f.turn(page, started) && !abandoned {
				f.late.Ended(f.began)
			}
			if !page.More {
				f.late.Returned()
			}
		}
	}
	return true
}

// see notes the highest ordinal of rows that are not left to the next walk. There are new rows when it has grown, even if they wait.
func (f *feed) see(rows []outbox.Row, now time.Time) {
	if !f.table.Ordinal() {
		return
	}
	for i := range slices.Backward(rows) {
		if r := &rows[i]; !r.Beyond {
			if !r.Position.Unordered() && r.Position.Ordinal > f.highest {
				f.highest, f.active = r.Position.Ordinal, now
			}
			return
		}
	}
}

// abandons reports whether the walk goes no further than its first page, of which it was not expected that more follow: where it would
// have to end was not asked for. Its rows are taken, but it has not come to its end, and the next walk begins where it began.
func (f *feed) abandons(page outbox.Page) bool { return f.opening && page.More && page.Horizon == nil }

// turn sets where the walk ends, after its first page, and notes and reports that it has ended there.
func (f *feed) turn(page outbox.Page, started time.Time) bool {
	if !f.opening {
		f.cut = f.caughtUp
		f.found += page.Beyond
		return f.caughtUp
	}
	f.opening, f.began, f.found, f.cut = false, started, page.Beyond, false
	f.within = page.Horizon
	switch {
	case !page.More:
		f.long = false
	case page.Horizon == nil:
		f.long, f.caughtUp, f.cut = true, true, true
	default:
		f.long = true
		if page.Horizon.Highest != nil {
			f.late.Mark(started, *page.Horizon.Highest)
		}
	}
	return f.caughtUp
}

// again walks once more from the beginning; what is in flight is not taken twice. Sweeps begin anew too, since
// they must not overtake the walk.
func (f *feed) again() {
	f.cursor, f.caughtUp = outbox.Position{}, false
	f.highest, f.sweeping = math.MinInt64, false
	f.late.Forget()
}

// anew reports whether nothing is known of what was walked, so that neither sweep nor scan can be ahead of a walk that begins now.
func (f *feed) anew() bool { return !f.sweeps() || f.highest == math.MinInt64 }

func (f *feed) sweepTurn(now time.Time) bool {
	if !f.sweeps() || f.glancing(now) {
		return false
	}
	if !f.sweeping && !now.Before(f.sweepDue) {
		f.sweeping, f.sweepAt, f.sweepWithin, f.sweepSpent, f.sweepFound = true, outbox.Position{}, nil, 0, 0
	}
	if now.Before(f.sweepRest) {
		return false
	}
	return f.sweeping && (f.caughtUp && f.sinceSweep > 0 || f.sinceSweep >= walksPerSweep)
}

// sweeps reports whether there are sweeps. Where each walk begins at the beginning there is no need.
func (f *feed) sweeps() bool { return f.table.Ordinal() && !f.table.Ranked() }

// swept takes note of what was new in a page of the sweep. After the last one the next sweep waits, the longer the less there is to find:
// where a transaction that stays open keeps the server from cleaning up, each sweep reads all that was relayed since. It reports
// whether the walk begins anew because of what sweeps have found.
func (f *feed) swept(fresh int, more bool, now time.Time) (anew bool) {
	f.sweepFound += fresh
	if more {
		return false
	}
	f.sweeping = false
	if f.sweepFound > 0 || f.table.Delays() { // its rows become due at any time
		f.inVain = 0
	}
	pause := f.sweepPause()
	if f.sweepFound > 0 { // and there may be more
		pause = sweepOften
	}
	f.sweepDue = now.Add(max(pause, min(sweepRestShare*f.sweepSpent<<f.inVain, longestSweep), restShare*f.sweepSpent))
	f.inVain = min(f.inVain+1, mostInVain)
	if anew = f.strays.swept(); anew {
		f.again()
	}
	return anew
}

func (f *feed) sweepPause() time.Duration {
	if f.table.Delays() {
		return sweepOften
	}
	return sweepEvery
}
