package engine

import (
	"slices"
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
	seen   *outbox.Visible // of the last first page; nil if the next one begins at the very beginning
	cursor outbox.Position // zero: before everything
	more   bool            // the last page was full, and the next page goes on from the cursor
	// poll is when the next first page is read, and from its beginning until the tail rests, when it began. It is zero
	// if the next one follows at once: a writer has rung since it began.
	poll time.Time
	look time.Duration // what a page takes apart from its rows

	// No sweep goes over rows that are read by their available_at. Their tail begins again instead, by itself.
	renewed time.Time // when it last did

	// First pages begin at the low watermark: a mark that is old enough. How old, is only a guess: the numbers of the
	// transactions that have ended show whether it was right.
	marks []mark // oldest first; the last ones are not complete
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
	at      time.Time // when the page had come that showed the value; zero while the last mark's value still grows
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
func (e *Engine) late() time.Duration {
	if e.Table.Timed() {
		return lateTime
	}
	return lateNumber
}

// readTail returns the read of a tail's next page.
func (e *Engine) readTail(kind Kind, now time.Time) *Read {
	t := &e.tails[kind]
	if kind == Due && !t.more && now.Sub(t.renewed) > longestRest {
		e.restart(kind)
		t.renewed = now
	}
	r := &Read{Kind: kind, query: outbox.Query{After: t.cursor, Due: kind == Due, Shards: e.shards.queried()}}
	r.query.Rows = min(e.Limits.Batch, e.tailRows())
	r.query.Bytes, r.query.First = e.freeBytes(kind)
	// Where new rows may come before older ones, they wait for the poll interval at most until these are read.
	if t.more && (!e.Table.Ranked() || now.Sub(t.poll) < e.poll(false)) {
		return r
	}
	t.poll, r.query.Seen = now, t.seen
	if low := e.lowAt(t, now); low != nil && t.seen != nil {
		r.query.Low = new(low.highest)
	}
	return r
}

// lowAt returns the mark at which a first page begins that is read now; nil for the very beginning.
func (e *Engine) lowAt(t *tail, now time.Time) *mark {
	for i := len(t.marks) - 1; i >= 0; i-- {
		m := &t.marks[i]
		if m.number != 0 && now.Sub(m.at) >= e.late() {
			return m
		}
	}
	return nil
}

// page returns the rows of a page that may be taken, and whether the page is whole. If not, the next one is read at
// once. Everything that keeps late commits in their place (invariant 6 of package internal) is decided in this
// function, by numbers of transactions alone: no clock says what was committed before what.
func (e *Engine) page(t *tail, r *Read, now time.Time) (rows []outbox.Row, whole bool) {
	page := &r.Page
	// Then nothing has come, and it is asked for again when so many bytes are free.
	if e.reads.wants[r.Kind] = page.Wants; page.Wants > 0 {
		return nil, false
	}
	rows = page.Rows
	first := r.query.Seen != nil || t.seen == nil
	switch {
	case r.query.Low != nil && t.seen.FirstEnded(&page.Visible) < e.lowAt(t, r.began).number:
		// Such a transaction may have inserted an older row of a key before the low watermark. The next page begins
		// at a mark before it.
		ended, highest := t.seen.FirstEnded(&page.Visible), t.marks[len(t.marks)-1].highest
		t.marks = slices.DeleteFunc(t.marks, func(m mark) bool { return m.number > ended })
		t.mark(highest)
		t.poll = time.Time{}
		return nil, false
	case first:
		// A copy: the next query refers to it, and would keep this page in memory, as this page's query does the one
		// before it, and so on to the very first. At 1,000 rows a second the heap grew by 190 MB in half a minute.
		seen := page.Visible
		t.seen = &seen
	default:
		ended := t.seen.FirstEnded(&page.Visible)
		for i := range rows {
			// An older row of its key may have been committed since, at a place that was passed. A first page follows.
			// Only transactions that have ended since put rows in doubt. If each one that ran in seen did, one that
			// stays open for an hour would make all rows since then doubtful, and first pages without end.
			if !t.seen.Certain(rows[i].Writer, e.Table.Exact(), ended) {
				if t.more, rows = false, rows[:i]; i > 0 {
					t.cursor = rows[i-1].Position
				}
				t.poll = time.Time{}
				return rows, false
			}
		}
	}
	e.advance(t, r, now)
	return rows, true
}

// advance moves the cursor. A full page moves it back if it ends before: what lies between is read again. A bulk insert
// that commits late may have more rows before the cursor than a page holds, and those that did not fit were never seen.
//
// A mark gets its time once a second, with the rows of this page in its value, and is completed when it is old enough:
// the highest value was seen before now, when the read ended, and the number was to be assigned after the read began.
func (e *Engine) advance(t *tail, read *Read, now time.Time) {
	p := &read.Page
	t.more = p.Full
	marks := read.Kind == Tail && e.ordered() && !e.Table.Delays() // order values are compared
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.After || p.Full {
			t.cursor = r.Position
		}
		if marks {
			t.mark(r.Position.Ordinal)
		}
	}
	n := len(t.marks)
	for i := n - 1; i >= 0 && t.marks[i].number == 0; i-- {
		if m := &t.marks[i]; !m.at.IsZero() && read.began.Sub(m.at) >= e.late() {
			m.number = p.Visible.Unassigned
		}
	}
	if n > 0 && t.marks[n-1].at.IsZero() && (n == 1 || now.Sub(t.marks[n-2].at) >= markEvery) {
		t.marks[n-1].at = now
	}
}

// mark notes an order value that was seen in the last mark, or in a new one if the last one has its time.
func (t *tail) mark(value int64) {
	n := len(t.marks)
	switch {
	case n > 0 && t.marks[n-1].highest >= value:
	case n > 0 && t.marks[n-1].at.IsZero():
		t.marks[n-1].highest = value
	default:
		if n == mostMarks {
			t.marks = append(t.marks[:0], t.marks[n/2:]...)
		}
		t.marks = append(t.marks, mark{highest: value})
	}
}

// restart makes a tail begin at the very beginning. Marks stay: they say what transactions could still insert, and not
// what was read.
func (e *Engine) restart(kind Kind) {
	t := &e.tails[kind]
	t.seen, t.cursor, t.more, t.poll = nil, outbox.Position{}, false, time.Time{}
	e.reads.wants[kind] = 0
}

// distrust forgets the marks: new rows come before them. The next first page begins at the very beginning. In a
// simulation in which the marks stayed, after one row with an order value of 2^40 all rows that followed waited for a
// sweep, two and a half minutes in the median, until the relay was started again.
func (t *tail) distrust() { t.marks = nil }

// begins makes the tails begin at the very beginning: shards were gained, or rows were not taken for want of memory. A
// page that is under way is not taken (invariant 6). There is no state of a shard that is being gained: a sweep that
// looked for its rows while the tail went on let the tail bring younger ones first.
func (e *Engine) begins() {
	if e.waits.jammed { // they do so later, and the sweep goes as far as the tail has come
		return
	}
	e.restart(Tail)
	e.restart(Due)
	e.failed.on, e.failed.ended = false, time.Time{} // what is read again may have failed rows that are not known
	e.reads.stale = e.reads.under[slot(Tail)] != nil
}

// rereadDue makes the tail of due rows start again, since no sweep finds what it has missed: rows that were made
// pending again, and rows that were forgotten while a hold lasted.
func (e *Engine) rereadDue() {
	e.restart(Due)
	if r := e.reads.under[slot(Due)]; r != nil && r.Kind == Due {
		e.reads.stale = true
	}
}
