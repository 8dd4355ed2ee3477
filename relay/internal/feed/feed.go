// Package feed decides which rows of a destination to read next, and when. It makes no reads itself: the engine asks
// for the next read ([Feed.Next]), makes it, and passes the results back ([Feed.Read], [Feed.TailTaken], [Feed.ReconciliationTaken]).
//
// A feed makes three kinds of reads:
//
//   - tail: on from the cursor, while there is more;
//   - recent: once everything has been read, from the low watermark to the end, so that the relay sees rows that commit late,
//     while the dead index entries before it cost nothing (package late decides where it is, and whether there is a later place);
//   - reconciliation: from the very beginning up to the place that the tail scan has reached, a page now and then, so that nothing
//     is missed forever; less often if it finds nothing and costs much.
//
// While the feed economizes, it only glances at the table to find out whether there is anything to read (doorbell.go).
//
// A tail scan of several pages sees the table at several times. It must not take the younger row of a key from a later page
// if an older row was committed meanwhile on an earlier page. So it leaves out what was not committed, or not even
// inserted, when it began ([late.Commits.LeaveOut]). The next tail scan begins at the low watermark again and meets both rows. Until it
// has ended, no other read takes a younger row of the key.
//
// Where a new row may come before older ones, such a tail scan begins at the very beginning, again at every poll. It leaves out
// what the last one has returned, but for every five seconds, and when rows that waited may go on. During a long tail scan the first
// page is read now and then, and every eighth read goes in table order (guard.go).
//
// Rows with available_at that have an index of their own are read by [Due] instead.
package feed

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/late"
)

// Order is what a feed needs to know of a table.
type Order interface {
	Ordinal() bool      // whether positions have ordinals
	Unique() bool       // whether no two rows have the same ordinal
	Ranked() bool       // whether new rows may come before older ones
	Delays() bool       // whether rows can become due later and are found by reads in table order
	OrderIndexed() bool // whether rows can be read in table order at little cost, whatever their priority
}

// Feed makes the reads of one destination in table order. One goroutine uses it.
type Feed struct {
	Late *late.Commits

	order     Order
	batch     int
	least     int // rows of room that make a read worthwhile
	average   int64
	cursor    outbox.Position
	caughtUp  bool
	restarted time.Time // when the tail scan last began at the very beginning
	whole     time.Time // when it last began to bring all rows, where it always begins there
	owes      bool      // all rows are to be brought, by a tail scan that has not ended
	partial   bool      // the present tail scan leaves out what an earlier one has returned
	met       bool      // rows were read since the tail scan last began again, perhaps without an order value
	highest   int64     // highest ordinal seen

	began   time.Time       // when the tail scan began, with its first page
	opening bool            // the first page is being read
	long    bool            // the tail scan is expected to take more than the first page
	within  *outbox.Horizon // horizon of a tail scan that takes more
	cut     bool            // there may be more rows after the end of the tail scan
	found   int             // number of new rows in this tail scan

	guard guard // for a tail scan by priority
	pace
	doorbell
	reconciliation
}

// Kind is the kind of a read.
type Kind uint8

// The feed's kinds of reads. Kinds from Others on belong to the user of the feed.
const (
	Tail      Kind = iota // a tail read or a recent read, of the tail scan
	Reconcile             // of the reconciliation scan
	Head                  // the first page, during a tail scan
	Glance                // only finds out whether there is anything to read
	Guard                 // a read in table order of a tail scan by priority
	Others
)

// New makes a feed. batch is the number of rows in a read, and rows the number that may be in flight. interval is the
// longest pause between two polls. idlePause is the longest pause of an owner that found nothing for ten seconds and
// whose doorbell works, if it is longer than interval.
func New(order Order, batch, rows int, interval, idlePause time.Duration, now time.Time) *Feed {
	if order.Delays() { // no writer rings when a row becomes due
		idlePause = min(idlePause, reconcileOften)
	}
	f := &Feed{
		Late: late.New(), order: order, batch: batch, average: 1024, restarted: now, highest: math.MinInt64,
		pace:     pace{interval: interval, pause: ShortestPause, looks: newLately(enough)},
		doorbell: doorbell{idlePause: max(interval, idlePause), wrote: newLately(8 * enough)},
	}
	f.Fit(rows)
	f.reconciliation.due = now.Add(f.reconcilePause())
	return f
}

// Fit records how many rows there can be room for. It is less than the limit while rows stay in flight that cannot be
// written.
func (f *Feed) Fit(rows int) { f.least = max(1, min(f.batch, rows/2)) }

// Worth reports whether a read is worthwhile if there is room for a number of rows.
func (f *Feed) Worth(rows int) bool { return rows >= f.least }

// CaughtUp reports whether the tail scan has reached the end of the table.
func (f *Feed) CaughtUp() bool { return f.caughtUp }

// Next returns the read to make now, if any, given the room that there is.
func (f *Feed) Next(now time.Time, rows int, bytes int64) (outbox.Query, Kind, bool) {
	if bytes <= 0 || !f.Worth(rows) {
		return outbox.Query{}, Tail, false
	}
	q := outbox.Query{Limit: min(rows, f.Rows(bytes)), Bytes: bytes}
	switch {
	case f.reconcileTurn(now):
		f.reconcilePage(&q)
		return q, Reconcile, true
	case f.nudged, !f.caughtUp:
	case now.Before(f.pace.due):
		return q, Tail, false
	}
	if !f.nudged && f.Glancing(now) {
		q.Glance = true
		return q, Glance, true
	}
	f.nudged = false
	return f.tail(q, now)
}

// tail completes the query for the next page of the tail scan.
func (f *Feed) tail(q outbox.Query, now time.Time) (outbox.Query, Kind, bool) {
	f.opening = f.caughtUp || f.cursor.IsZero()
	restart := f.order.Ranked() && now.Sub(f.restarted) >= f.interval
	switch {
	case f.guards():
		return f.guard.query(q, f.within), Guard, true
	case restart && !f.caughtUp: // the tail scan goes on, since rows that are held may fill its first pages
		return q, Head, true
	case restart, f.caughtUp && !f.Reconciles():
		f.cursor, f.restarted = outbox.Position{}, now
	case f.caughtUp:
		if f.cursor = (outbox.Position{}); f.Late.Recent(&q, f.long) {
			return q, Tail, true
		}
	}
	if q.After = f.cursor; q.After.IsZero() {
		f.guard = guard{}
		if !f.Reconciles() {
			q.Since = f.since(now)
			f.partial = q.Since != nil
		}
	}
	switch {
	case !f.Reconciles():
		if !f.opening {
			q.Within = f.within
		}
	case f.opening:
		f.Late.Whole()
		q.Horizon, f.reconciliation.replaced, f.reconciliation.waiting = true, true, 0
	default:
		q.Within = f.within
	}
	return q, Tail, true
}

// Bring makes the next tail scan from the very beginning bring all rows, since keys that waited may go on.
func (f *Feed) Bring() { f.owes = true }

// since returns what a tail scan leaves out that begins at the very beginning each time: what the last one that was complete has
// returned is in flight, or its keys wait. All rows are read now and then, as by reconciliation scans. With 100,000 rows of a topic
// that is missing before them, other rows of a table with priorities waited for 1.8 s at p50, and 0.08 s since.
func (f *Feed) since(now time.Time) *outbox.Snapshot {
	seen := f.Late.Seen()
	if f.owes = f.owes || seen == nil || !f.caughtUp || now.Sub(f.whole) >= reconcileEvery; f.owes {
		f.whole = now
		return nil
	}
	return seen
}

// Rows returns how many rows to read at once into a number of bytes.
func (f *Feed) Rows(bytes int64) int { return int(min(int64(f.batch), max(1, bytes/f.average))) }

// TooLong records a read that took too long. Its rows may have been as large as there was room for.
func (f *Feed) TooLong(q outbox.Query) { f.average = max(f.average, q.Bytes/int64(q.Limit)) }

// Read records a page. It reports whether the rows may be taken. If not, they are read again at once.
func (f *Feed) Read(k Kind, page outbox.Page, started, ended time.Time) bool {
	took := ended.Sub(started)
	if k == Glance {
		f.glanced(page, took, ended)
		return true
	}
	f.distance = page.Distance
	f.pace.read(took, len(page.Rows))
	f.Late.Date(&page.Snapshot)
	if n := len(page.Rows); n > 0 {
		mean := page.Bytes / int64(n)
		f.average = max(64, (3*f.average+mean)/4, mean/2)
	}
	switch k {
	case Reconcile:
		f.met = f.met || len(page.Rows) > 0
		f.reconciliation.read(page, took)
	case Head:
		f.restarted = ended
		f.guard.reads++
	case Guard:
		if f.guard.read(page) { // the tail scan begins again, too
			f.cursor, f.restarted = outbox.Position{}, ended
		}
	default:
		return f.tailPage(page, started, ended)
	}
	return true
}

// tailPage records a page of the tail scan, and reports whether its rows may be taken.
func (f *Feed) tailPage(page outbox.Page, started, ended time.Time) bool {
	// A tail scan that was not expected to take more than its first page ends there: the place where it has to end was not read. The rows
	// of the page are taken, but the tail scan is not complete, and the next tail scan begins where this one began.
	abandoned := f.Reconciles() && f.opening && page.More && page.Horizon == nil
	if f.opening {
		if f.Reconciles() && !f.Late.MayTake(&page.Ended) {
			f.cursor, f.caughtUp, f.nudged = outbox.Position{}, true, true
			return false
		}
		if !abandoned {
			f.Late.Opened(page.Snapshot)
		}
		if f.order.Ranked() {
			f.within = everywhere(page.Snapshot)
		}
		f.waited = 0
		f.Late.TakeLeftOut()
	}
	f.reconciliation.tailReads++
	f.guard.reads++
	f.see(page.Rows, ended)
	f.cursor, f.caughtUp = page.End, !page.More
	if f.Reconciles() && f.turn(page, started) && !abandoned {
		f.Late.Ended(f.began)
	}
	if !page.More {
		f.Late.Returned()
		f.owes = f.owes && f.partial
	}
	return true
}

// everywhere returns a horizon that does not end in table order, for a tail scan by priority: new rows may come anywhere in
// the tail scan.
func everywhere(s outbox.Snapshot) *outbox.Horizon {
	highest := int64(math.MaxInt64)
	return &outbox.Horizon{Snapshot: s, Highest: &highest}
}

// see notes the ordinals of the rows that are not left to the next tail scan. If the highest has grown there are new rows,
// even if they wait. Rows beyond the highest ordinal have not been met before.
func (f *Feed) see(rows []outbox.Row, now time.Time) {
	f.met = f.met || len(rows) > 0
	if f.again = len(rows); !f.order.Ordinal() {
		return
	}
	if !f.order.Ranked() {
		f.again = sort.Search(len(rows), func(i int) bool {
			return !rows[i].Position.Unordered() && rows[i].Position.Ordinal > f.highest
		})
	}
	if f.order.Unique() && f.Reconciles() {
		for i := range rows {
			if r := &rows[i]; !r.Beyond && !r.Position.Unordered() {
				f.Late.Read(r.Position.Ordinal)
			}
		}
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

// turn sets the end of the tail scan after its first page. It reports, and notes, whether the tail scan has ended.
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

// Again makes the tail scan begin again. What is in flight is not taken twice. Reconciliation scans and reads in table order begin again
// too, since they must not overtake the tail scan.
func (f *Feed) Again() {
	f.cursor, f.caughtUp = outbox.Position{}, false
	f.met, f.highest, f.guard = false, math.MinInt64, guard{}
	f.reconciliation.under, f.reconciliation.tailReads = false, 0
	f.Late.Forget()
}

// Whole reports whether a read is the first page of a tail scan from the very beginning, while nothing has been read since the
// tail scan last began again. Neither a reconciliation scan nor a catch-up scan can then be ahead of the tail scan.
func (f *Feed) Whole(k Kind, q outbox.Query) bool {
	if k != Tail || !q.After.IsZero() {
		return false
	}
	if !f.Reconciles() {
		return q.Since == nil
	}
	return !f.met && (q.Recent == nil || *q.Recent == math.MinInt64)
}

// Scannable reports whether anything was read that a catch-up scan can read again.
func (f *Feed) Scannable() bool {
	return f.Reconciles() && !f.Late.Lowered() && f.met
}

// Upto returns the ordinal up to which reads go that must reach the last row of the tail scan, and not overtake it.
func (f *Feed) Upto() *int64 {
	if f.highest == math.MaxInt64 {
		return nil
	}
	upto := f.highest + 1 // more rows than a page may have the same order value
	return &upto
}
