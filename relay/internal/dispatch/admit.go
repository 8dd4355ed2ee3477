package dispatch

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// source is the kind of read that a row comes from.
type source uint8

const (
	FromFeed           source = iota // the reads of feed and of due rows: only keys that do not wait
	FromReconciliation               // those of the reconciliation scan
	fromScan                         // a catch-up scan: also keys that wait for it
	fromTrial                        // the heads of keys that wait
)

// Take takes the rows of a read in table order. It returns how many of them are new, and how many must wait.
func (d *Dispatch) Take(rows []outbox.Row, from source, now time.Time) (taken, waiting int) {
	backing := make([]Row, len(rows))
	for i := range rows {
		r := &backing[i]
		if !d.ordered() { // where larger priorities go first, the ordinal does not give the order: all rows count alike
			rows[i].Position.Ordinal = 0
		}
		r.Row, r.key, r.Try = &rows[i], keyOf(&rows[i]), rows[i].Attempt
		d.taken++
		r.Hash, r.number = r.key.Hash(), d.taken
		switch d.admit(r, from, now) {
		case admitted:
			taken++
		case passedOver:
			waiting++
		case known:
		}
	}
	if taken > 0 {
		d.aged = max(0, d.aged-1)
	}
	if n := len(rows); from == FromFeed && n > 0 && !rows[n-1].Delayed {
		d.Flights.Reached(rows[n-1].Position.Ordinal)
	}
	d.Ended()
	d.dropVoid()
	return taken, waiting
}

// Decline leaves the rows of a read to the next read. Younger rows of their keys that are queued, or refused, must wait for a scan,
// since they must not go before a row that was seen.
func (d *Dispatch) Decline(rows []outbox.Row, now time.Time) {
	busy := d.mayComeBack()
	for i := range rows {
		r := &Row{Row: &rows[i], key: keyOf(&rows[i])}
		r.Hash = r.key.Hash()
		w := d.waits.byKey[r.Hash]
		if _, is := busy[r.Hash]; !is && w == nil || r.key.keyless || r.Beyond || !d.shards.reading.Has(r.Shard) {
			continue
		}
		_, here := d.inFlight[r.Identity()]
		_, settled := d.gone[r.Identity()]
		switch {
		case here, settled:
		case w == nil, w.headID == "":
			d.passKey(r.key, r.Hash, r.Shard, d.below(low(r)), now)
		case w.headID != r.ID():
			d.passKey(r.key, r.Hash, r.Shard, d.lowIn(w, r), now)
		}
	}
	d.Ended()
	d.dropVoid()
}

// admission is what becomes of a row that was read.
type admission uint8

const (
	known      admission = iota // under way or settled, of a shard that is not relayed, or left to the next tail scan
	passedOver                  // forgotten until its key may go on
	admitted                    // queued
)

// admit decides what becomes of one row.
func (d *Dispatch) admit(r *Row, from source, now time.Time) admission {
	same, here := d.inFlight[r.Identity()]
	if here && from == fromScan {
		same.metBy, same.metAt = d.catch.number, r.number
	}
	if _, settled := d.gone[r.Identity()]; here || settled {
		// After the tail scan has begun again, it may come by such rows without having got that far, as it counts (feed.Upto). If the row
		// has to wait then, the scan for it ends before it, and opens the key.
		if _, known := d.Late.LowWatermark(); r.Beyond && from != fromScan && !known {
			d.Late.LeaveOut(r.Hash, r.Position.Ordinal, false)
		}
		return known
	}
	if !d.shards.reading.Has(r.Shard) {
		return known // this replica gained or lost the shard during the read
	}
	if d.Failures.passOver(r) {
		if r.Beyond && from != fromScan { // a scan may end before it, and open the key
			d.Late.LeaveOut(r.Hash, r.Position.Ordinal, false)
		}
		return passedOver
	}
	w := d.waits.meets(r)
	if w != nil && !d.letPass(r, w, from) {
		return passedOver
	}
	if w == nil {
		switch {
		case from == fromTrial:
			return known
		case r.Beyond:
			d.Late.LeaveOut(r.Hash, r.Position.Ordinal, from == fromScan)
			return known
		case d.awaitOlder(r, from, now):
			return passedOver
		}
	}
	r.Others = d.Flights.Others(r.Message.Topic)
	d.To.Prepare(r, now)
	if w != nil && w.headID == r.ID() {
		r.unknown = w.unknown
		if !d.Table.KeepsAttempts() {
			r.Try += w.refusals
		}
	}
	if d.makeWait(r, w, now) {
		return passedOver
	}
	d.enqueue(r)
	return admitted
}

// letPass lets a row of a waiting key go on, or passes it over, and reports which. The row goes on if it is the head that
// is tried, if a scan brought it, or if it goes before the head because it was committed late.
func (d *Dispatch) letPass(r *Row, w *Wait, from source) bool {
	at := d.lowIn(w, r)
	switch {
	case from == fromTrial:
		return w.state == asked && w.headID == r.ID()
	case r.Beyond:
		if w.stopped = w.stopped || from == fromScan && d.catch.covers(w); from != fromScan {
			d.Late.LeaveOut(r.Hash, r.Position.Ordinal, false) // a scan may end before this row, and open the key
		}
		d.passBefore(w, at)
		return false
	case w.headID == r.ID() && at == w.head:
		return false // the row is the head
	case d.catch.covers(w):
		if !w.stopped && at <= d.below(w.next) && (from == fromScan || d.scannedPast(r)) {
			r.scan = d.catch.number
			return true
		}
	case d.ordered() && at < w.head && w.headID != "":
		return d.letPassHead(r, w, from)
	}
	d.passOver(w, at)
	return false
}

// scannedPast reports whether the current scan has come by the place of a row that it did not bring. The rows that it has brought may be
// on their way, and this one, which was committed late, goes before them.
func (d *Dispatch) scannedPast(r *Row) bool {
	return d.Table.Before(r.Position, d.catch.at)
}

// letPassHead lets a row go on that goes before the head of its key, or passes it over, and reports which. It does not wait for what the
// head waits for, but goes on if it lies before everything that is known of the key. A head that is queued then gives way to it.
func (d *Dispatch) letPassHead(r *Row, w *Wait, from source) bool {
	at := d.lowIn(w, r)
	if first, overtakes := d.Late.Overtakes(r.Hash, r.Position.Ordinal, from == FromFeed); overtakes {
		w.low = min(w.low, d.below(first)) // but not before what was left to a tail scan when the key did not wait yet
	}
	switch {
	case w.state == trial && d.onWire(w.trial), w.state == writing && w.low < at:
		w.older, at = true, d.below(at)
	case w.state == trial, w.low < at:
		w.low = min(w.low, w.head)
		d.catchUp(w) // a queued head becomes void
		d.void = true
		if w.low >= at {
			return true
		}
	default:
		return true
	}
	d.passOver(w, at)
	return false
}

// onWire reports whether the row has been handed to its worker.
func (d *Dispatch) onWire(r *Row) bool { return slices.Contains(d.lanes[r.worker].wire, r) }

// awaitOlder passes the row over if an older row of its key was left to a tail scan, and reports whether it has. A catch-up scan then
// brings both rows.
func (d *Dispatch) awaitOlder(r *Row, from source, now time.Time) bool {
	head, overtakes := d.Late.Overtakes(r.Hash, r.Position.Ordinal, from == FromFeed)
	if !overtakes || r.key.keyless {
		return false
	}
	d.passKey(r.key, r.Hash, r.Shard, min(head, low(r)), now)
	return true
}

// passKey closes a key until a scan has passed.
func (d *Dispatch) passKey(k key, hash uint64, shard int, from int64, now time.Time) {
	if d.waits.noRoom(hash) {
		d.crowd(hash, from, now)
		return
	}
	d.passBefore(d.add(k, hash, shard), from)
	d.void = true
}

// passBefore notes that a row of a key was passed over, and makes the key's head go after that row if it lies after it.
func (d *Dispatch) passBefore(w *Wait, at int64) {
	d.passOver(w, at)
	switch {
	case w.state == writing, w.state == trial && d.onWire(w.trial):
		w.older = w.older || at < w.head
	case w.state != catching && at < w.head:
		d.catchUp(w)
		d.void = true // a queued head is
	}
}

// makeWait makes the row's key wait if the row may not be published yet, and reports whether it has: the row's backoff is
// not over, or what the row would be published to is in trouble.
func (d *Dispatch) makeWait(r *Row, w *Wait, now time.Time) bool {
	h := d.holds.of(r)
	rest := d.restOf(r, w)
	tries := w != nil && w.state == asked // the row is the head that is tried
	switch {
	case rest > 0:
		if d.waits.noRoom(r.Hash) {
			d.crowd(r.Hash, low(r), now)
		} else if w, ok := d.lead(r); ok {
			d.waits.rest(w, CauseRetry, now.Add(rest))
		}
		return true
	case h == nil, tries && w.hold == h:
		return false
	case h.halfOpen && h.probe == nil && r.key.keyless && !d.waits.full():
		if w, ok := d.lead(r); ok {
			d.waits.enter(w, asked, h.cause)
			d.joined(w, h)
			h.probe, h.halfOpen = w, false
			return false
		}
	}
	d.join(r, h, now)
	return true
}

// restOf returns what is left of the row's backoff. If the database's clock has been set back since the refusal was
// written, the whole backoff is waited for once, by the relay's own clock.
func (d *Dispatch) restOf(r *Row, w *Wait) time.Duration {
	if !r.Retried || r.Waited < 0 && w != nil && w.headID == r.ID() { // the key has waited
		return 0
	}
	return retry.Backoff(d.To.BackoffMin, d.To.BackoffMax, r.Message.ID, r.Try) - max(0, r.Waited)
}

// enqueue puts a row in the lane of its key's worker. A head that is tried goes to a lane of its own.
func (d *Dispatch) enqueue(r *Row) {
	r.Size = int64(r.Message.Size()) + rowOverhead
	r.worker = int(r.lane() % uint64(d.workers()))
	w := d.waits.byKey[r.Hash]
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
	d.bytes += r.Size
	d.Flights.Begin(r)
	l := &d.lanes[r.worker]
	l.idle = false
	if r.late = d.ordered() && d.Table.Before(r.Position, d.reached) && !tries && !r.key.keyless; r.late {
		if !r.Timed && d.Late.OutOfOrder(r.Hash, r.Position.Ordinal) {
			d.Measure.OrderViolation()
		}
		l.insert(r)
	} else {
		l.push(r)
	}
	if !r.Delayed && d.Table.Before(d.reached, r.Position) {
		d.reached = r.Position
	}
}

// rowOverhead is the approximate memory that a row in flight takes in addition to its message, in bytes.
const rowOverhead = 400

// TookBefore reports whether any of these rows, which were just read, was taken although it lies before an ordinal.
func (d *Dispatch) TookBefore(rows []outbox.Row, ordinal int64) bool {
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
