// Package feed decides which rows of a destination to read next, and when. It makes no reads itself: the engine asks for the next one
// ([Feed.Next]), makes it, and tells what came of it ([Feed.Read], [Feed.Walked], [Feed.Swept]).
//
// A feed makes three kinds of reads:
//
//   - next: on from the cursor, while there is more;
//   - recent: once everything has been walked, from a low-water bound to the end, so that rows that commit late are seen at the next read,
//     while the dead index entries before the bound cost nothing (package late says where that is);
//   - sweep: from the very beginning up to where the walk has been, a page now and then, so that nothing can be missed for ever; more
//     rarely where it finds nothing and costs much.
//
// While it economizes it only glances at the table instead, whether there is anything to read (doorbell.go).
//
// A walk that takes several pages sees the table at several times. It must not take the younger row of a key from a late page when an older
// one was committed meanwhile, to an early page. So it leaves out what was not committed, or not even inserted, when it began
// ([late.Commits.LeaveOut]). The next walk begins at the bound again and comes by both.
//
// Where a new row may come before older ones, the walk begins again at every poll instead; during a long walk the first page is looked at
// now and then, and every eighth read goes in table order (guard.go).
//
// Rows with available_at that have an index of their own are read by [Due] instead.
package feed

import (
	"math"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/late"
)

// Order is what a feed has to know of a table.
type Order interface {
	Ordinal() bool      // positions have ordinals
	Ranked() bool       // new rows may come before older ones
	Delays() bool       // rows can become due later, and are found by reads in table order
	OrderIndexed() bool // rows can be read in table order at little cost, whatever their priority
}

// Feed is the reads in table order of one destination. One goroutine uses it.
type Feed struct {
	Late *late.Commits

	order     Order
	batch     int
	least     int // rows of room for which a read is worth its while
	average   int64
	cursor    outbox.Position
	caughtUp  bool
	restarted time.Time // when the walk last began at the beginning
	highest   int64     // ordinal

	began   time.Time       // when the walk began, with its first page
	opening bool            // that page is being read
	long    bool            // the walk is expected to take more than that page
	within  *outbox.Horizon // of a walk that does
	cut     bool            // there may be more beyond the end of the walk
	found   int             // new rows in this walk

	guard guard // of a walk by priority
	pace
	doorbell
	sweep
}

// Kind is what kind of read is to be made.
type Kind uint8

// The feed's kinds of reads. Those from Others on are for whoever uses the feed.
const (
	Walk   Kind = iota // next and recent
	Sweep              // from the very beginning
	Head               // the first page, during a walk
	Glance             // whether there is anything to read
	Guard              // the walk's by priority that is made in table order
	Others
)

// New makes a feed that reads so many rows at once, and of which so many may be in flight. interval is the longest pause between two
// polls; idlePause that of an owner which found nothing for ten seconds and whose doorbell works, if it is longer.
func New(order Order, batch, rows int, interval, idlePause time.Duration, now time.Time) *Feed {
	if order.Delays() { // nobody rings when a row becomes due
		idlePause = min(idlePause, sweepOften)
	}
	f := &Feed{Late: late.New(), order: order, batch: batch, average: 1024, restarted: now, highest: math.MinInt64,
		pace: pace{interval: interval, pause: ShortestPause}, doorbell: doorbell{idlePause: max(interval, idlePause)}}
	f.Fit(rows)
	f.sweep.due = now.Add(f.sweepPause())
	return f
}

// Fit takes note of how many rows there can be room for: fewer than the limit while some stay in flight that cannot be written.
func (f *Feed) Fit(rows int) { f.least = max(1, min(f.batch, rows/2)) }

// Worth reports whether a read is worth its while when there is room for so many rows.
func (f *Feed) Worth(rows int) bool { return rows >= f.least }

// CaughtUp reports whether the walk has come to the end of the table.
func (f *Feed) CaughtUp() bool { return f.caughtUp }

// Next returns the read to make now, if any, given the room there is.
func (f *Feed) Next(now time.Time, rows int, bytes int64) (outbox.Query, Kind, bool) {
	if bytes <= 0 || !f.Worth(rows) {
		return outbox.Query{}, Walk, false
	}
	q := outbox.Query{Limit: min(rows, f.Rows(bytes)), Bytes: bytes}
	switch {
	case f.sweepTurn(now):
		f.sweepPage(&q)
		return q, Sweep, true
	case f.nudged, !f.caughtUp:
	case now.Before(f.pace.due):
		return q, Walk, false
	}
	if !f.nudged && f.Glancing(now) {
		q.Glance = true
		return q, Glance, true
	}
	f.nudged = false
	return f.walk(q, now)
}

// walk completes the query for the next page of the walk.
func (f *Feed) walk(q outbox.Query, now time.Time) (outbox.Query, Kind, bool) {
	f.opening = f.caughtUp || f.cursor.IsZero()
	restart := f.order.Ranked() && now.Sub(f.restarted) >= f.interval
	switch {
	case f.guards():
		return f.guard.query(q), Guard, true
	case restart && !f.caughtUp: // the walk goes on: rows that are held may fill its first pages
		return q, Head, true
	case restart, f.caughtUp && !f.order.Ordinal():
		f.cursor, f.restarted = outbox.Position{}, now
	case f.caughtUp:
		if f.cursor = (outbox.Position{}); f.Late.Tail(&q, f.long) {
			return q, Walk, true
		}
	}
	if q.After = f.cursor; q.After.IsZero() {
		f.guard = guard{}
	}
	switch {
	case !f.Sweeps():
	case f.opening:
		f.Late.Whole()
		q.Horizon = true
	default:
		q.Within = f.within
	}
	return q, Walk, true
}

// Rows returns how many rows are read at once into so many bytes.
func (f *Feed) Rows(bytes int64) int { return int(min(int64(f.batch), max(1, bytes/f.average))) }

// TooLong takes note of a read that took too long: its rows may have been as large as there was room for.
func (f *Feed) TooLong(q outbox.Query) { f.average = max(f.average, q.Bytes/int64(q.Limit)) }

// Read takes note of a page. It reports whether the rows may be taken; if not, they are read again at once.
func (f *Feed) Read(k Kind, page outbox.Page, started, ended time.Time) bool {
	took := ended.Sub(started)
	if k == Glance {
		f.glanced(page, took, ended)
		return true
	}
	f.took.add(took)
	f.Late.Date(&page.Snapshot)
	if n := len(page.Rows); n > 0 {
		mean := page.Bytes / int64(n)
		f.average = max(64, (3*f.average+mean)/4, mean/2)
	}
	switch k {
	case Sweep:
		f.sweep.read(page, took)
	case Head:
		f.restarted = ended
		f.guard.reads++
	case Guard:
		if f.guard.read(page) { // the walk begins again, too
			f.cursor, f.restarted = outbox.Position{}, ended
		}
	default:
		return f.walked(page, started, ended)
	}
	return true
}

// walked takes note of a page of the walk, and reports whether its rows may be taken.
func (f *Feed) walked(page outbox.Page, started, ended time.Time) bool {
	if f.opening && f.Sweeps() {
		if !f.Late.MayTake(&page.Ended) {
			f.cursor, f.caughtUp, f.nudged = outbox.Position{}, true, true
			return false
		}
		if !f.abandons(page) {
			f.Late.Opened(page.Snapshot)
		}
	}
	if f.opening {
		f.waited = 0
		f.Late.TakeLeftOut()
	}
	f.sweep.walks++
	f.guard.reads++
	f.see(page.Rows, ended)
	f.cursor, f.caughtUp = page.End, !page.More
	if f.Sweeps() {
		if abandoned := f.abandons(page); f.turn(page, started) && !abandoned {
			f.Late.Ended(f.began)
		}
		if !page.More {
			f.Late.Returned()
		}
	}
	return true
}

// see notes the highest ordinal of rows that are not left to the next walk. There are new rows when it has grown, even if they wait.
func (f *Feed) see(rows []outbox.Row, now time.Time) {
	if !f.order.Ordinal() {
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
func (f *Feed) abandons(page outbox.Page) bool { return f.opening && page.More && page.Horizon == nil }

// turn sets where the walk ends, after its first page, and notes and reports that it has ended there.
func (f *Feed) turn(page outbox.Page, started time.Time) bool {
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
			f.Late.Mark(started, *page.Horizon.Highest)
		}
	}
	return f.caughtUp
}

// Again walks once more from the beginning; what is in flight is not taken twice. Sweeps and reads in table order begin again too, since
// they must not overtake the walk.
func (f *Feed) Again() {
	f.cursor, f.caughtUp = outbox.Position{}, false
	f.highest, f.sweep.under, f.guard = math.MinInt64, false, guard{}
	f.Late.Forget()
}

// Whole reports whether a read is the first page of a walk from the very beginning, while nothing is known of what was walked: neither a
// sweep nor a scan can be ahead of it.
func (f *Feed) Whole(k Kind, q outbox.Query) bool {
	return k == Walk && q.After.IsZero() && q.Recent == nil && (!f.Sweeps() || f.highest == math.MinInt64)
}

// Scannable reports whether something was walked that a scan can go through again.
func (f *Feed) Scannable() bool {
	return f.Sweeps() && !f.Late.Lowered() && f.highest != math.MinInt64
}

// Upto is the ordinal up to which reads go that must come by the last row of the walk, and not overtake it.
func (f *Feed) Upto() *int64 {
	upto := f.highest
	if upto < math.MaxInt64 { // more rows than a page may have the same order value
		upto++
	}
	return &upto
}
