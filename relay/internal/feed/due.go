package feed

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Due decides when to read the rows whose available_at has come, where they have a read of their own. Each read also
// returns when the next row becomes due, so that this row is read then. Rows that were inserted meanwhile and are due
// earlier are looked for after a hint, and now and then.
//
// A pass goes in the order of available_at, in pages, to the end of the due rows. Most passes begin a little before the
// place where the last one began, so that dead index entries and waiting rows further back cost nothing. Some passes
// begin at the very beginning, more often if that is cheap.
//
// One goroutine uses it.
type Due struct {
	reads   bool // due rows have a read of their own
	cursor  outbox.Position
	under   bool      // a pass is under way
	whole   bool      // the pass began at the very beginning
	began   time.Time // when the first page of the pass was read
	spent   time.Duration
	reached time.Time // when the last complete pass began; zero if there is none
	wholeAt time.Time // from when on a pass begins at the very beginning
	next    time.Time // when the next row becomes due; zero if that is not known
	poll    time.Time // when to check whether an earlier row has come
	asked   bool      // poll also while the feed glances
	ended   time.Time // end of the last read
	rest    time.Time // no read is made before this time
	pause   time.Duration
}

// NewDue makes the feed of due rows. reads says whether due rows have a read of their own.
func NewDue(reads bool) Due { return Due{reads: reads, pause: dueRest} }

const (
	uselessRest   = 3                      // rest after a page, as a multiple of the time that rows of no use took in it
	dueEvery      = 250 * time.Millisecond // rows may be inserted that become due before all others
	dueSoon       = 50 * time.Millisecond  // after a hint, where hints have been for other rows
	dueRest       = 5 * time.Millisecond   // so that rows that become due one after the other come a few at a time
	longestDue    = 200 * time.Millisecond // longest rest after reads that found nothing new
	dueWholeShare = 50                     // rest after a pass from the beginning, as a multiple of the time it took
)

// Ask makes due rows be looked for, on a hint that rows were inserted.
func (d *Due) Ask() {
	d.asked = true
	if soon := d.ended.Add(min(d.pause, dueSoon)); soon.Before(d.poll) {
		d.poll = soon
	}
}

// Again makes the next pass begin at the very beginning.
func (d *Due) Again() { *d = Due{reads: d.reads, pause: dueRest} }

// Wait returns when the next read is to be made, if any. While the feed glances, the glances find the rows that are
// inserted.
func (d *Due) Wait(glancing bool) (time.Time, bool) {
	polls := !glancing || d.asked
	switch at := d.next; {
	case !d.reads:
		return time.Time{}, false
	case d.under:
		return d.rest, true
	case polls && (at.IsZero() || d.poll.Before(at)):
		return Later(d.poll, d.rest), true
	default:
		return Later(at, d.rest), !at.IsZero()
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

// Read records a page and the number of its rows that were new.
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
		d.wholeAt = ended.Add(min(dueWholeShare*d.spent, longestReconcileRest))
	}
	if d.pause = min(2*d.pause, dueEvery); fresh > 0 {
		d.pause = dueRest
	}
	d.poll = ended.Add(d.pause)
}

// Glanced records a glance of the feed: if it found rows, some may be due.
func (d *Due) Glanced(page outbox.Page, ended time.Time) {
	d.foresee(page, ended)
	if page.More {
		d.poll = ended
	}
}

// foresee records when the next row becomes due, from a read or a glance.
func (d *Due) foresee(page outbox.Page, ended time.Time) {
	d.next = time.Time{}
	if page.Next > 0 {
		d.next = ended.Add(page.Next)
	}
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
