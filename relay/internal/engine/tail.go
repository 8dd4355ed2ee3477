package engine

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A tail reads pending rows in an order and finds what commits late. In a calm hour each of its pages is a first page,
// which begins a second or so before the newest row and has nothing new: 50 to 63 µs of PostgreSQL. With a backlog,
// further pages go on from the cursor to the end, or to the first row in doubt, and a first page follows.
//
// Every row at or before the cursor that seen sees has been taken, or was dropped because its key was closed. Writers
// of a key are serialised: whoever sees a row of a key sees all rows before it. So a younger row may be taken from a
// page if the page brings, or the rule above covers, everything that is visible in its snapshot (first page) or in
// seen (further pages).
//
// There are two: one in table order, and one by available_at where the table has an index for that. Rows of the second
// are keys by themselves, so it needs no marks, and nothing of it can be overtaken.
type tail struct {
	table Table
	due   bool // reads rows by their available_at

	seen   *outbox.Visible // of the last first page; nil if the next one begins at the very beginning
	cursor outbox.Position // zero: before everything
	more   bool            // the last page was full, and the next page goes on from the cursor
	began  time.Time       // when the last first page was read
	poll   time.Time       // when the next first page is read
	rung   bool            // it is read at once: a writer rang since the last one began
	look   time.Duration   // what a page takes apart from its rows
	wants  int64           // bytes of the next row, for which there was no room

	// No sweep goes over rows that are read by their available_at. Their tail begins again instead, by itself.
	renewed time.Time // when it last did
	strays  bool      // rows were forgotten for which no hold is responsible

	// First pages begin at the low watermark: a mark that is old enough. How old, is only a guess: the numbers of the
	// transactions that have ended show whether it was right.
	marks   []mark // oldest first; the last ones are not complete
	low     *mark  // the last that a page began at; nil for none
	highest *int64 // highest order value seen
	missed  uint64 // a transaction has ended that may have inserted rows before the low watermark; 0 for none
}

// A mark is the highest order value at a time. Transactions with this number or a higher one insert only after it:
// their numbers were not assigned when the time had passed for which an order value may be drawn before its
// transaction's first write.
//
// Its parts come from different moments: the value is seen, then the time begins, and the number is taken from a read
// that began after the time was over. Otherwise a row may be missed and overtaken. With a number taken together with
// the value, a transaction that draws its value first and its number later is below the watermark with a number above
// the mark. With a time that began when the read of the value did, the same happened in two of 6,000 schedules in which
// reads begin late.
type mark struct {
	at      time.Time // when the page had come that showed the value
	highest int64
	number  uint64 // 0 until it is complete
}

const (
	// With a mark a second, mostMarks reach back for eight minutes at least. When a transaction ends that was open for
	// longer, one first page begins at the very beginning.
	mostMarks = 1000
	markEvery = time.Second

	// lateNumber is how long before its transaction's first write a number may be drawn, and lateTime how long before
	// it the transaction may have begun, where times are order values. What comes later is found by a sweep. Each first
	// page reads as far back, so longer times cost at each poll: with a snapshot pinned by another session, a first
	// page over the last 1,000 values took 263 µs of PostgreSQL, and 529 over the last 5,000.
	lateNumber = time.Second
	lateTime   = 5 * time.Second
)

// late returns how long before its transaction's first write an order value may be drawn.
func (t *tail) late() time.Duration {
	if t.table.Timed() {
		return lateTime
	}
	return lateNumber
}

// query returns the next page's query. interval is the poll interval: where new rows may come before older ones, a
// further page is not read later than that after the last first page.
func (t *tail) query(now time.Time, interval time.Duration) *Read {
	if age := now.Sub(t.renewed); t.due && !t.more && (age > longestRest || t.strays && age > strayPause) {
		t.again()
		t.renewed, t.strays = now, false
	}
	r := &Read{Kind: Tail, query: outbox.Query{After: t.cursor, Due: t.due}}
	if t.due {
		r.Kind = Due
	}
	// Where new rows may come before older ones, they do not wait until these are read.
	if t.more && (!t.table.Ranked() || now.Sub(t.began) < interval) {
		return r
	}
	t.began, t.rung = now, false
	r.first, r.query.Seen = true, t.seen
	if t.low = t.lowAt(now); t.low != nil && t.seen != nil {
		r.query.Low = &t.low.highest
	}
	return r
}

// lowAt returns the mark at which a first page begins; nil for the very beginning. After a page that could not be
// taken, it is one that is complete and below the transaction that was missed.
func (t *tail) lowAt(now time.Time) *mark {
	for i := len(t.marks) - 1; i >= 0; i-- {
		m := &t.marks[i]
		if m.number != 0 && now.Sub(m.at) >= t.late() && (t.missed == 0 || m.number <= t.missed) {
			return &mark{m.at, m.highest, m.number}
		}
	}
	return nil
}

// page returns the rows of a page that may be taken, and whether the page is whole. If not, the next one is read at
// once. Everything that keeps late commits in their place (invariant 6 of package internal) is decided in this
// function, by numbers of transactions alone: no clock says what was committed before what.
func (t *tail) page(r *Read, now time.Time) (rows []outbox.Row, whole bool) {
	page := &r.Page
	if t.wants = page.Wants; t.wants > 0 { // nothing has come; it is asked for again when so many bytes are free
		return nil, false
	}
	rows = page.Rows
	switch {
	case r.first && r.query.Low != nil && t.seen.FirstEnded(&page.Visible) < t.low.number:
		// Such a transaction may have inserted an older row of a key before the low watermark. The next page begins
		// before it.
		t.missed = t.seen.FirstEnded(&page.Visible)
		t.poll = time.Time{}
		return nil, false
	case r.first:
		// A copy: the next query refers to it, and would keep this page in memory, as this page's query does the one
		// before it, and so on to the very first. At 1,000 rows a second the heap grew by 190 MB in half a minute.
		seen := page.Visible
		t.missed, t.seen = 0, &seen
	default:
		ended := t.seen.FirstEnded(&page.Visible)
		for i := range rows {
			// An older row of its key may have been committed since, at a place that was passed. A first page follows.
			// Only transactions that have ended since put rows in doubt. If each one that ran in seen did, one that
			// stays open for an hour would make all rows since then doubtful, and first pages without end.
			if !t.seen.Certain(rows[i].Writer, t.table.Exact(), ended) {
				if t.more, rows = false, rows[:i]; i > 0 {
					t.cursor = rows[i-1].Position
				}
				t.poll = time.Time{}
				return rows, false
			}
		}
	}
	// In this order: the mark's value includes the rows of this page.
	t.advance(page)
	t.mark(r.began, now, page.Visible.Unassigned)
	return rows, true
}

// advance moves the cursor. A full page moves it back if it ends before: what lies between is read again. A bulk insert
// that commits late may have more rows before the cursor than a page holds, and those that did not fit were never seen.
func (t *tail) advance(p *outbox.Page) {
	t.more = p.Full
	marks := !t.due && t.table.Ordinal() && !t.table.Ranked() && !t.table.Delays() // order values are compared
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.After || p.Full {
			t.cursor = r.Position
		}
		if marks && (t.highest == nil || *t.highest < r.Position.Ordinal) {
			t.highest = new(r.Position.Ordinal)
		}
	}
}

// mark makes a mark once a second, and completes those that are old enough. began is when the read of the page began
// that brings the number, and now when it ended: the highest value was seen before now, and the number was to be
// assigned after began.
func (t *tail) mark(began, now time.Time, number uint64) {
	if t.highest == nil {
		return
	}
	for i := len(t.marks) - 1; i >= 0 && t.marks[i].number == 0; i-- {
		if began.Sub(t.marks[i].at) >= t.late() {
			t.marks[i].number = number
		}
	}
	if n := len(t.marks); n > 0 && (now.Sub(t.marks[n-1].at) < markEvery || t.marks[n-1].highest == *t.highest) {
		return
	}
	if len(t.marks) == mostMarks {
		t.marks = append(t.marks[:0], t.marks[mostMarks/2:]...)
	}
	t.marks = append(t.marks, mark{at: now, highest: *t.highest})
}

// again makes the tail begin at the very beginning. Marks stay: they say what transactions could still insert, and not
// what was read.
func (t *tail) again() {
	t.seen, t.cursor, t.more, t.missed, t.wants, t.poll = nil, outbox.Position{}, false, 0, 0, time.Time{}
}

// distrust forgets the marks: new rows come before them. The next first page begins at the very beginning. In a
// simulation in which the marks stayed, after one row with an order value of 2^40 all rows that followed waited for a
// sweep, two and a half minutes in the median, until the relay was started again.
func (t *tail) distrust() { t.marks, t.low, t.highest, t.missed = nil, nil, nil, 0 }
