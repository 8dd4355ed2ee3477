package engine

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// The sweep goes over all pending rows up to the tail's cursor, slowly, and takes nothing. A row that is not in flight
// and whose key is open was missed: its order value is older than its transaction's first write, or another session has
// made it pending again, or its key did not fit anywhere. (Or it was committed a moment ago.) Its key is closed, and
// read by itself.
//
// It need not be exact. A key that it closes for nothing costs one read of two rows, so it does not ask which rows a
// snapshot of the tail has seen.

// A pass goes over many rows of the table, page by page, again and again.
type pass struct {
	at     outbox.Position // of the last row that it has looked at
	on     bool            // it has begun and not ended
	asked  bool            // as soon as possible
	number uint8           // of the present pass; waiting keys remember the last that has met them
	ended  time.Time       // end of the last pass
	took   time.Duration   // time of the reads of the present pass, or the last one, without its rests
}

// due returns when the next page is to be read, or the next pass begins.
func (p *pass) due(pause time.Duration) (at time.Time) {
	if p.on || p.asked {
		return at
	}
	return p.ended.Add(min(max(pause, passShare*p.took), longestRest))
}

// begins begins a pass, unless it is under way, and reports whether it did.
func (p *pass) begins() bool {
	if p.on {
		return false
	}
	*p = pass{on: true, number: p.number + 1, ended: p.ended}
	return true
}

const (
	// sweepRows is how many rows a page has. 4,000 of them take 7.5 ms, and no contents are sent.
	sweepRows = 4000

	// strayPause is the rest after a sweep if rows without a key wait that are not remembered. They are tried again in
	// turn, as those are that are remembered.
	strayPause = 10 * time.Second

	sweepPause = 10 * time.Second // shortest pause between two sweeps

	// 200,000 pending rows take 0.37 s, a million about two. A pass is followed by a rest passShare times as long, so
	// that it costs two per cent of a processor at most, but not longer than longestRest: rows that nothing else finds
	// wait for it.
	passShare   = 50
	longestRest = 5 * time.Minute
)

// sweepDue returns when the next page is to be read, or the next sweep begins, if there is room for what it finds. A
// sweep that went on without room would pass rows that it cannot remember. It stops, and goes on at the same place. The
// last quarter of the closed keys' room is not for it, so that keys which waited for a hold find places while it fills
// the rest.
func (e *Engine) sweepDue(now time.Time) (at time.Time, ok bool) {
	s := &e.sweep
	// A tail that begins at the very beginning misses nothing. One that begins at a low watermark does, even if it has
	// not met a row since its last new beginning: rows that failed retry made pending again, after a takeover with
	// nothing pending, waited until a new row came.
	t := &e.tails[Tail]
	whole := t.cursor.IsZero() && e.lowAt(t, now) == nil && !e.waits.jammed
	switch {
	case e.unlisted():
		return at, false
	case whole && !e.waits.strays || e.closed >= e.room(true) || len(e.gone) >= e.Limits.Rows:
		return at, false
	case e.waits.strays && !s.on && !s.asked:
		return s.ended.Add(strayPause), true
	}
	return s.due(sweepPause), true
}

// readSweep returns the read of the next page.
func (e *Engine) readSweep() *Read {
	s := &e.sweep
	// No sweep goes over rows that are read by their available_at. Their tail begins again instead.
	if s.begins() && e.waits.strays && !e.tails[Due].more {
		e.waits.strays = false
		e.rereadDue()
	}
	return &Read{Kind: Sweep, query: outbox.Query{
		Sweep: true, After: s.at, Upto: e.tails[Tail].cursor, Shards: e.shards.queried(),
		Most: outbox.Most{Rows: sweepRows},
	}}
}

// swept looks at the rows of a page. They come in table order, so the first that it meets of a key is the key's first
// pending row.
func (e *Engine) swept(r *Read, took time.Duration, now time.Time) {
	s := &e.sweep
	if e.unlisted() {
		return // the page comes again
	}
	s.took += took
	for i := range r.Page.Rows {
		row := &r.Page.Rows[i]
		if w, waits := e.waits.by[row.Hash]; waits && w.hold != e.waits.blocked && w.met != s.number {
			w.met = s.number
			e.waits.by[row.Hash] = w
			// If the first row of a key is not the row that was stopped, or has another topic by now, somebody has
			// changed the rows of the key, which is tried. A key that waits for room waits for nothing that a changed
			// row could end.
			if w.hold != e.waits.room && w.stamp != 0 && w.stamp != stampOf(row.Identity(), row.Message.Topic) {
				e.resumes(row.Hash, now)
			}
		}
		if e.isMissed(row, r.number) {
			// A row that was committed a moment ago is met as well, and has nothing wrong: it is above the low
			// watermark.
			if low := e.lowAt(&e.tails[Tail], r.began); low != nil && row.Position.Ordinal < low.highest {
				e.tails[Tail].distrust() // its marks do not hold for all rows: a sequence was set back, perhaps
			}
			if e.closed >= e.room(true) {
				return // the next page begins here, after the row before this one
			}
			k := e.keyOf(row.Hash, false, row.Message.Key == nil, row.Shard)
			k.unmarkable = true // a trigger may take marks back, and the row would be published at each sweep
			e.rest(k, causeOrder, now)
		}
		s.at = row.Position
	}
	if !r.Page.Full {
		s.on, s.ended = false, now
	}
}

// isMissed reports whether a row is not in flight although nothing is known of its key.
func (e *Engine) isMissed(r *outbox.Row, read uint64) bool {
	if e.isKnown(r, read) || !e.shards.active.Has(r.Shard) || e.waits.has(r.Hash) {
		return false
	}
	k := e.keys[r.Hash]
	return k == nil || k.state == open
}
