package feed

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Due decides when to read the rows whose available_at has come, where they have a read of their own. Each read also tells when the next
// row becomes due, so that it is read then; it is looked for rows that were inserted meanwhile and are due earlier after a hint, and now and then.
//
// A pass goes in the order of available_at to the end of what is due, in pages. Most begin a little before the last one did: dead
// index entries and rows that wait, further back, cost nothing then. Some begin at the very beginning, the more often the less that costs.
//
// One goroutine uses it.
type Due struct {
	reads   bool // there is such a read
	cursor  outbox.Position
	under   bool      // a pass is under way
	whole   bool      // it began at the very beginning
	began   time.Time // when its first page was read
	spent   time.Duration
	reached time.Time // when the last pass began that has come to its end; zero when there is none
	wholeAt time.Time // from when on a pass begins at the very beginning
	next    time.Time // when the next row becomes due; zero when none is known
	poll    time.Time // when it is looked whether that is still so
	asked   bool      // also while the feed glances
	ended   time.Time // the last read
	rest    time.Time // no read is made before
	pause   time.Duration
}

// NewDue makes the feed of due rows; reads says whether there is one.
func NewDue(reads bool) Due { return Due{reads: reads, pause: dueRest} }

const (
	uselessRest   = 3                      // so many times what was of no use in a page, none is read after it
	dueEvery      = 250 * time.Millisecond // rows may be inserted that become due before all others
	dueSoon       = 50 * time.Millisecond  // after a hint, where hints have been for other rows
	dueRest       = 5 * time.Millisecond   // rows that become due one after the other come a few at a time
	longestDue    = 200 * time.Millisecond // that reads rest which found nothing new
	dueWholeShare = 50                     // so many times what a pass from the beginning took, none is made
)

// Ask lets due rows be looked for: there is a hint that rows were inserted.
func (d *Due) Ask() {
	d.asked = true
	if soon := d.ended.Add(min(d.pause, dueSoon)); soon.Before(d.poll) {
		d.poll = soon
	}
}

// Again lets the next pass begin at the very beginning.
func (d *Due) Again() { *d = Due{reads: d.reads, pause: dueRest} }

// Wait returns when the next read is to be made, if any. While the feed glances, that tells of rows that were inserted.
func (d *Due) Wait(glancing bool) (time.Time, bool) {
	polls := !glancing || d.asked
	switch at := d.next; {
	case !d.reads:
		return time.Time{}, false
	case d.under:
		return d.rest, true
	case polls && (at.IsZero() || d.poll.Before(at)):
		return maxTime(d.poll, d.rest), true
	default:
		return maxTime(at, d.rest), !at.IsZero()
	}
}

// Query returns the next page to read.
func (d *Due) Query(now time.Time) outbox.Query {
	if !d.under {
		d.under, d.began, d.spent, d.cursor = true, now, 0, outbox.Position{}
		d.whole = d.reached.IsZero() || !now.Before(d.wholeAt)
	}
	q := outbox.Query{Due: true, After: d.cursor}
	if !d.whole && d.cursor.IsZero() {
		q.Back = now.Sub(d.reached) + outbox.Late
	}
	return q
}

// Read takes note of a page of which so many rows were new.
func (d *Due) Read(page outbox.Page, fresh int, started, ended time.Time) {
	took := ended.Sub(started)
	d.spent += took
	d.foresee(page, ended)
	useless := took
	if n := len(page.Rows); n > 0 {
		useless = took * time.Duration(n-fresh) / time.Duration(n)
	}
	d.ended = ended
	if d.cursor = page.End; page.More {
		d.rest = ended.Add(min(uselessRest*useless, longestDue))
		return
	}
	d.rest = ended.Add(max(dueRest, min(flowShare*took+(RestShare-flowShare)*useless, longestDue)))
	d.under, d.asked, d.reached = false, false, d.began
	if d.whole {
		d.wholeAt = ended.Add(min(dueWholeShare*d.spent, longestSweep))
	}
	if d.pause = min(2*d.pause, dueEvery); fresh > 0 {
		d.pause = dueRest
	}
	d.poll = ended.Add(d.pause)
}

// Glanced takes note of a glance of the feed: if there are rows, some may be due.
func (d *Due) Glanced(page outbox.Page, ended time.Time) {
	d.foresee(page, ended)
	if page.More {
		d.poll = ended
	}
}

// foresee takes note of when the next row becomes due, which a read or a glance has told.
func (d *Due) foresee(page outbox.Page, ended time.Time) {
	d.next = time.Time{}
	if page.Next > 0 {
		d.next = ended.Add(page.Next)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
