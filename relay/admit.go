package relay

import (
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// source is what kind of read a row comes from.
type source uint8

const (
	fromWalk  source = iota // and from sweeps: only keys that do not wait
	fromScan                // a catch-up scan: keys that wait for one, too
	fromTrial               // the heads of keys that wait
)

// take takes the rows of a read in table order and returns how many of them are new, and how many must wait.
func (d *dispatch) take(rows []outbox.Row, from source, now time.Time) (taken, waiting int) {
	backing := make([]row, len(rows))
	for i := range rows {
		r := &backing[i]
		if !d.ordered() { // where larger priorities go first it does not tell which row does: all count alike
			rows[i].Position.Ordinal = 0
		}
		r.Row, r.key, r.attempt = &rows[i], keyOf(&rows[i]), rows[i].Attempt
		d.taken++
		r.hash, r.number = r.key.hash(), d.taken
		switch d.admit(r, from, now) {
		case admitted:
			taken++
		case passedOver:
			waiting++
		}
	}
	if n := len(rows); from == fromWalk && n > 0 && !rows[n-1].Delayed {
		d.flights.walk(rows[n-1].Position.Ordinal)
	}
	d.ended()
	d.dropVoid()
	return taken, waiting
}

// decline leaves the rows of a read to the next one. What is queued of their keys and younger waits for a scan: it must not go
// before a row that was seen.
func (d *dispatch) decline(rows []outbox.Row, now time.Time) {
	busy := d.underWay()
	for i := range rows {
		r := &row{Row: &rows[i], key: keyOf(&rows[i])}
		r.hash = r.key.hash()
		if _, is := busy[r.hash]; !is || r.key.keyless || r.Beyond || !d.shards.reading.Has(r.Shard) {
			continue
		}
		_, here := d.inFlight[r.Identity()]
		if _, settled := d.gone[r.Identity()]; !here && !settled {
			d.passKey(r.key, r.hash, r.Shard, low(r), now)
		}
	}
	d.ended()
	d.dropVoid()
}

// admission is what becomes of a row that was read.
type admission uint8

const (
	known      admission = iota // it is under way or settled, not ours, or the next walk's
	passedOver                  // it is forgotten until its key may go on
	admitted                    // it is queued
)

// admit decides what becomes of one row.
func (d *dispatch) admit(r *row, from source, now time.Time) admission {
	if _, here := d.inFlight[r.Identity()]; here {
		return known
	}
	if _, settled := d.gone[r.Identity()]; settled {
		return known
	}
	if !d.shards.reading.Has(r.Shard) {
		return known // it came to us or left us while the read was under way
	}
	if d.failures.meets(r) {
		return passedOver
	}
	w := d.waits.meets(r)
	if w != nil && !d.mayPass(r, w, from) {
		return passedOver
	}
	if w == nil {
		switch {
		case from == fromTrial:
			return known
		case r.Beyond:
			d.late.LeaveOut(r.hash, r.Position.Ordinal)
			return known
		case d.overtakes(r, now):
			return passedOver
		}
	}
	r.others = d.flights.others(r.Message.Topic)
	r.destination, r.span = d.to, d.to.beginSpan(&r.Message, now)
	d.to.render(r.Row, r.attempt)
	if caught, ok := errors.AsType[*panics.Error](r.Invalid); ok {
		d.to.panicked(d.logger, "the row fails that was being made into a message", caught)
	}
	if w != nil && w.headID == r.ID() {
		r.unknown = w.unknown
		if !d.table.KeepsAttempts() {
			r.attempt += w.refusals
		}
	}
	if d.mustWait(r, w, now) {
		return passedOver
	}
	d.enqueue(r)
	return admitted
}

// mayPass reports whether a row of a key that waits may go on: it is the head that is tried, or brought by a scan, or it goes before
// everything that is known of the key, because it was committed late: then it does not wait for what the head waits for.
func (d *dispatch) mayPass(r *row, w *wait, from source) bool {
	at := low(r)
	switch {
	case from == fromTrial:
		return w.state == asked && w.headID == r.ID()
	case r.Beyond:
		if w.stopped = w.stopped || from == fromScan; from == fromWalk {
			d.late.LeaveOut(r.hash, r.Position.Ordinal) // a scan may end before it, and open the key
		}
		d.passOver(w, at)
		return false
	case w.headID == r.ID() && at == w.head:
		return false // it is the head
	case d.catch.covers(w):
		// What the scan has brought may be on its way, and what was committed late goes before it.
		if !w.stopped && at <= w.next && (from == fromScan || d.ordered() && d.table.Before(r.Position, d.catch.at)) {
			return true
		}
	case d.ordered() && at < w.head && w.headID != "": // it goes before the head
		switch {
		case w.state == trial && d.onWire(w.trial), w.state == writing && w.low < at:
			w.older = true
		case w.state == trial, w.low < at:
			w.low = min(w.low, w.head)
			d.catchUp(w) // a head that is queued becomes void
			d.void = true
			if w.low >= at {
				return true
			}
		default:
			return true
		}
	}
	d.passOver(w, at)
	return false
}

// onWire reports whether the row has been handed to its worker.
func (d *dispatch) onWire(r *row) bool {
	for _, other := range d.lanes[r.worker].wire {
		if other == r {
			return true
		}
	}
	return false
}

// overtakes reports whether an older row of the key was left to the next walk. Then a scan brings both.
func (d *dispatch) overtakes(r *row, now time.Time) bool {
	head, overtakes := d.late.Overtakes(r.hash, r.Position.Ordinal)
	if !overtakes || r.key.keyless {
		return false
	}
	d.passKey(r.key, r.hash, r.Shard, min(head, low(r)), now)
	return true
}

// passKey closes a key until a scan has come by.
func (d *dispatch) passKey(k key, hash uint64, shard int, from int64, now time.Time) {
	if d.waits.noRoom(hash) {
		d.crowd(hash, from, now)
		return
	}
	w := d.add(k, hash, shard)
	d.passOver(w, from)
	switch {
	case w.state == writing, w.state == trial && d.onWire(w.trial):
		w.older = w.older || from < w.head
	case w.state != catching && (w.headID == "" || from < w.head):
		d.catchUp(w) // a head that is queued becomes void
	}
	d.void = true
}

// mustWait reports whether the row must wait, and then lets its key wait.
func (d *dispatch) mustWait(r *row, w *wait, now time.Time) bool {
	h := d.holds.of(r)
	rest := restOf(r, w)
	tries := w != nil && w.state == asked // the head
	switch {
	case rest > 0:
		if d.waits.noRoom(r.hash) {
			d.crowd(r.hash, low(r), now)
		} else if w, ok := d.lead(r); ok {
			d.waits.rest(w, causeRetry, now.Add(rest))
		}
		return true
	case h == nil, tries && w.hold == h:
		return false
	case h.open && h.probe == nil && r.key.keyless && !d.waits.full():
		if w, ok := d.lead(r); ok {
			d.waits.enter(w, asked, h.cause)
			w.hold, h.probe, h.open = h, w, false
			h.waiting = append(h.waiting, w)
			return false
		}
	}
	d.join(r, h, now)
	return true
}

// restOf returns what is left of the row's backoff. The database's clock may have been set back since the refusal was written: then
// the backoff is waited for in full, once, by the relay's own clock.
func restOf(r *row, w *wait) time.Duration {
	if !r.Retried || r.Waited < 0 && w != nil && w.headID == r.ID() { // its key has waited
		return 0
	}
	return retry.Backoff(r.destination.BackoffMin, r.destination.BackoffMax, r.Message.ID, r.attempt) - max(0, r.Waited)
}

// enqueue puts a row in the lane of its key's worker; a head that is tried has another.
func (d *dispatch) enqueue(r *row) {
	r.size = int64(r.Message.Size()) + rowOverhead
	r.worker = int(r.lane() % uint64(d.workers()))
	w := d.waits.byKey[r.hash]
	tries := w != nil && w.state == asked && w.headID == r.ID()
	if tries {
		r.worker = d.workers()
		if r.unknown > 0 || w.hold != nil && w.hold.other {
			r.worker++
		}
		w.state, w.trial, r.wait = trial, r, w
	}
	d.inFlight[r.Identity()] = r
	d.shards.inFlight[r.Shard]++
	d.bytes += r.size
	d.flights.begin(r)
	l := &d.lanes[r.worker]
	if r.late = d.ordered() && d.table.Before(r.Position, d.walked) && !tries && !r.key.keyless; r.late {
		if d.late.OutOfOrder(r.hash, r.Position.Ordinal) {
			d.metrics.orderViolations(1)
		}
		l.insert(r)
	} else {
		l.push(r)
	}
	if !r.Delayed && d.table.Before(d.walked, r.Position) {
		d.walked = r.Position
	}
}

// rowOverhead is about what a row in flight takes besides its message.
const rowOverhead = 400

// tookBefore reports whether one of these rows, which were just read, has been taken although it lies before an ordinal.
func (d *dispatch) tookBefore(rows []outbox.Row, ordinal int64) bool {
	for i := range rows {
		r := &rows[i]
		if r.Position.Unordered() || r.Position.Ordinal >= ordinal {
			continue
		}
		if taken := d.inFlight[r.Identity()]; taken != nil && taken.Row == r {
			return true
		}
	}
	return false
}
