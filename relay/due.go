package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// due decides when to read the rows whose available_at has come, where they have a read of their own. Each read also tells when the next
// row becomes due, so that it is read then; it is looked for rows that were inserted meanwhile and are due earlier after a hint, and now and then.
//
// A pass goes in the order of available_at to the end of what is due, in pages. Most begin a little before the last one did: dead
// index entries and rows that wait, further back, cost nothing then. Some begin at the very beginning, the more often the less that costs.
//
// Only the loop touches it.
type due struct {
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

const (
	dueEvery      = 250 * time.Millisecond // rows may be inserted that become due before all others
	dueSoon       = 50 * time.Millisecond  // after a hint, where hints have been for other rows
	dueRest       = 5 * time.Millisecond   // rows that become due one after the other come a few at a time
	longestDue    = 200 * time.Millisecond // that reads rest which found nothing new
	dueWholeShare = 50                     // so many times what a pass from the beginning took, none is made
)

// ask lets due rows be looked for: there is a hint that rows were inserted.
func (d *due) ask() {
	d.asked = true
	if soon := d.ended.Add(min(d.pause, dueSoon)); soon.Before(d.poll) {
		d.poll = soon
	}
}

// again lets the next pass begin at the very beginning.
func (d *due) again() { *d = due{reads: d.reads, pause: dueRest} }

// wait returns when the next read is to be made, if any. While the feed glances, that tells of rows that were inserted.
func (d *due) wait(glancing bool) (time.Time, bool) {
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

// query returns the next page to read.
func (d *due) query(now time.Time) outbox.Query {
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

// read takes note of a page of which so many rows were new.
func (d *due) read(page outbox.Page, fresh int, started, ended time.Time) {
	took := ended.Sub(started)
	d.spent += took
	d.glanced(page, ended)
	useless := took
	if n := len(page.Rows); n > 0 {
		useless = took * time.Duration(n-fresh) / time.Duration(n)
	}
	d.ended = ended
	if d.cursor = page.End; page.More {
		d.rest = ended.Add(min(scanRest*useless, longestDue))
		return
	}
	d.rest = ended.Add(max(dueRest, min(flowShare*took+(restShare-flowShare)*useless, longestDue)))
	d.under, d.asked, d.reached = false, false, d.began
	if d.whole {
		d.wholeAt = ended.Add(min(dueWholeShare*d.spent, longestSweep))
	}
	if d.pause = min(2*d.pause, dueEvery); fresh > 0 {
		d.pause = dueRest
	}
	d.poll = ended.Add(d.pause)
}

// glanced takes note of when the next row becomes due, which a read or a glance has told.
func (d *due) glanced(page outbox.Page, ended time.Time) {
	d.next = time.Time{}
	if page.Next > 0 {
		d.next = ended.Add(page.Next)
	}
}

// readDue begins a read of due rows, if there is one to make.
func (e *engine) readDue(now time.Time) bool {
	at, ok := e.due.wait(e.feed.glancing(now))
	rows, bytes := e.room.left(e.dispatch)
	if !ok || now.Before(at) || e.patience[readDue].resting(now) || bytes <= 0 || rows < e.feed.least || e.dispatch.shards.active == (owner.Set{}) {
		return false
	}
	q := e.due.query(now)
	q.Limit = min(rows, e.feed.rows(min(bytes, e.room.most)))
	e.room.bound(&q, bytes)
	q.Shards = e.dispatch.shards.queried(e.dispatch.shards.active)
	e.begin(read{query: q, kind: readDue})
	return true
}

// takeDue takes a page of due rows. While some come or wait, the owner is not idle.
func (e *engine) takeDue(r read) {
	fresh, waiting := e.dispatch.take(r.page.Rows, fromWalk, r.ended)
	e.due.read(r.page, fresh, r.started, r.ended)
	if fresh+waiting > 0 {
		e.feed.active = r.ended
	}
	if fresh > 0 {
		e.metrics.wakeup(sourcePoll)
	}
}
