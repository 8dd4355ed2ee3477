package dispatch

import "time"

// failing are rows that have failed for good and whose failure is being written, by the hashes of their keys. In nearly all cases
// the key goes on a moment later, so its queued rows stay in their lane until then ([Dispatch.sends]). To drop them, and to read them
// again with a catch-up scan, took a scan for each row that failed. Where rows have priorities, it took a tail scan over everything: of
// 60 keys, some 60 rows a second failed in all.
//
// If the failure is not written soon, or cannot be written, the key waits like any other (Wait). So it does while less than half of the
// room is left: rows of a key that fail one after the other must not take all of it from other keys. Only the dispatch touches it.
type failing struct {
	rows  map[uint64]*Row
	since time.Time // when a failure was last written, or when rows became the first one of these
}

// longestFailing is how long failures may be under way without any being written.
const longestFailing = time.Second

// goesOn reports whether the key of a row that has failed for good goes on as soon as that is written.
func (d *Dispatch) goesOn(r *Row) bool {
	blocks := d.Failures != nil && !r.ordering().keyless
	room := len(d.inFlight) <= d.Limits.Rows/2 && d.bytes <= d.Limits.Bytes/2
	return !blocks && room && r.wait == nil && d.waits.of(r.Hash) == nil
}

// add notes that a row's failure is to be written.
func (f *failing) add(r *Row, now time.Time) {
	if len(f.rows) == 0 {
		f.since = now
	}
	f.rows[r.Hash] = r
}

// has reports whether another row of the row's key is failing.
func (f *failing) has(r *Row) bool {
	if len(f.rows) == 0 {
		return false
	}
	first := f.rows[r.Hash]
	return first != nil && first != r
}

// failureOver notes that a row's failure was written, or that its key waits for that.
func (d *Dispatch) failureOver(r *Row, now time.Time) {
	delete(d.failing.rows, r.Hash)
	d.failing.since = now
	for i := range d.lanes {
		d.lanes[i].idle = false
	}
}

// failsSlowly makes the keys of failing rows wait if no failure is written: their queued rows must not take the room of others.
func (d *Dispatch) failsSlowly(now time.Time) {
	if len(d.failing.rows) == 0 || now.Sub(d.failing.since) < longestFailing {
		return
	}
	for _, r := range d.failing.rows {
		d.awaitWrite(r)
		d.failureOver(r, now)
	}
	d.dropVoid()
}

// awaitWrite makes a row's key wait until its refusal is written.
func (d *Dispatch) awaitWrite(r *Row) {
	older := false
	if w := d.waits.byKey[r.Hash]; w != nil {
		older = w.older
	}
	w, ok := d.lead(r)
	if w.state != writing {
		d.waits.enter(w, writing, CauseRetry)
		d.waits.heads(w, r.ID())
		w.head, w.failures, w.older = low(r), 0, older || !ok
		w.refusals++
	}
	w.writes++
	r.wait = w
}
