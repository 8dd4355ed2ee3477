package relay

import (
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/outbox"
)

// take takes the rows of a read in table order and returns how many of them are new, and how many must wait. reread are
// the blocks whose rows were read again, nil for other reads; more says that they may have further rows.
func (d *dispatch) take(rows []outbox.Row, reread []*block, more bool, now time.Time) (taken, waiting int) {
	backing := make([]row, len(rows))
	for i := range rows {
		r := &backing[i]
		r.Row, r.key, r.attempt = &rows[i], keyOf(&rows[i]), rows[i].Attempt
		switch d.admit(r, reread != nil, now) {
		case admitted:
			taken++
		case waits:
			waiting++
		}
	}
	for _, b := range reread {
		if b.phase != reading {
			continue // it waits again
		}
		b.phase, b.overtime = trying, 0
		b.dropped = b.dropped || more
		switch {
		case b.trying > 0:
		case more && taken == 0:
			d.blocks.waitUntil(b, now.Add(pause(0))) // for the rows in front of it to be settled
		default:
			d.finish(b)
		}
	}
	d.reading = false
	clear(d.gone)
	return taken, waiting
}

// admission is what becomes of a row that was read.
type admission uint8

const (
	known    admission = iota // it is under way or settled, not ours, or the next walk's
	waits                     // it is forgotten until its key may go on
	admitted                  // it is queued
)

// admit decides what becomes of one row.
func (d *dispatch) admit(r *row, reread bool, now time.Time) admission {
	if _, here := d.inFlight[r.Identity()]; here {
		return known
	}
	if _, settled := d.gone[r.Identity()]; settled {
		return known
	}
	if !d.shards.reading.Has(r.Shard) {
		return known // it came to us or left us while the read was under way
	}
	b := d.blocks.byKey[r.key]
	if b != nil && (!reread || b.phase != reading || b.closed) {
		d.behind(b, r)
		return waits
	}
	if b == nil && d.isPassed(r) {
		return waits
	}
	if r.Beyond {
		d.leftOut.add(r)
		return known
	}
	r.destination = d.route(r.Message.Topic)
	if d.overtakes(r, reread, now) {
		return waits
	}
	r.destination.render(r.Row, r.attempt, d.single())
	if caught, ok := errors.AsType[*panics.Error](r.Invalid); ok {
		r.destination.panicked(d.logger, "the row fails that was being made into a message", caught)
	}
	if b != nil && b.blamed == r.ID() {
		r.unknown = b.unknown
		if !d.keepAttempts {
			r.attempt += b.refusals
		}
	}
	if d.wait(r, b, now) {
		return waits
	}
	if b != nil {
		r.block, r.generation = b, b.generation
		b.trying++
		if b.trying == 1 {
			b.head = r.Position.Ordinal
		}
		b.last = r.Position.Ordinal
	}
	d.enqueue(r)
	return admitted
}

// overtakes reports whether an older row of the key was left to the next walk. The key is read again then, from there.
func (d *dispatch) overtakes(r *row, reread bool, now time.Time) bool {
	head, ok := d.leftOut.head(r.key)
	if !ok || reread || r.key.keyless || r.Position.Ordinal < head {
		return false
	}
	if d.full() {
		d.pass(r, nil, now)
		return true
	}
	b := d.block(r, causeOrder)
	b.head, b.dropped = min(b.head, head), true
	d.blocks.makeReady(b)
	return true
}

// behind lets a row wait for its blocked key. If it goes before the row that the key waits for, because it was
// committed late, it does not wait for that one's backoff: what was taken of the key becomes void and the key
// is read again.
func (d *dispatch) behind(b *block, r *row) {
	b.dropped = true
	before := b.head
	if b.phase == trying {
		before = b.last
	}
	b.head = min(b.head, r.Position.Ordinal)
	switch {
	case !d.ordinal || r.Position.Ordinal >= before:
	case b.phase == waiting, b.phase == trying:
		d.void = true
		d.blocks.makeReady(d.blocks.block(b.key, b.destination, b.cause, b.head))
		b.dropped = true
	case b.phase == writing:
		b.older = true
	}
}

// wait reports whether the row must wait, and then lets its key wait.
func (d *dispatch) wait(r *row, b *block, now time.Time) bool {
	var due time.Time
	h := d.holdOf(r)
	failed := d.failures.blocks(r.key)
	rest := restOf(r, b)
	switch {
	case failed:
		h = nil
	case rest > 0:
		due = now.Add(rest)
		h = nil
	case h != nil && (b == nil || b.hold != h):
	case d.elsewhere(r):
		h = nil
	default:
		return false
	}
	if b == nil && (h != nil && r.key.keyless && len(h.blocks) > 0 || d.full()) {
		d.pass(r, h, now)
		return true
	}
	if b != nil && b.trying > 0 {
		// Rows before it go first; then the key is read again and begins with this one.
		b.dropped, b.closed = true, true
		return true
	}
	switch {
	case failed:
		d.waitForFailed(d.block(r, causeBehindFailed))
	case h != nil:
		d.blocks.waitFor(d.block(r, h.cause), h)
	case !due.IsZero():
		d.blocks.waitUntil(d.block(r, causeRetry), due)
	default:
		d.block(r, causeOrder) // until its lane is free
	}
	d.blocks.byKey[r.key].dropped = true
	return true
}

// restOf returns what is left of the row's backoff. The database's clock may have been set back since the refusal was written: then
// the backoff is waited for in full, once, by the relay's own clock.
func restOf(r *row, b *block) time.Duration {
	if !r.Retried || r.Waited < 0 && b != nil { // its key has waited
		return 0
	}
	return backoff(r.destination.BackoffMin, r.destination.BackoffMax, r.Message.ID, r.attempt) - max(0, r.Waited)
}

// pass passes over a row, and over all of its key from now on, until the hold ends: then the walk begins anew.
func (d *dispatch) pass(r *row, h *hold, now time.Time) {
	if h == nil {
		h = &d.overflow
		if !h.active() {
			if now.After(d.crowded) {
				d.logger.Warn("more keys wait than are remembered one by one: the others are tried again every few seconds", "keys", len(d.blocks.byKey))
			}
			d.crowded = now.Add(crowdedFor)
			h.failures, h.until = 1, now.Add(overflowPause)
		}
	}
	h.skipped = true
	if !r.key.keyless {
		d.passed.add(r.key)
		d.void = true // a younger row of the key may be queued
	}
}

const (
	// overflowPause is how long rows are passed over that wait for something other than a topic.
	overflowPause = 10 * time.Second
	// crowdedFor is how long none must be before it is told again.
	crowdedFor = time.Minute
)

// holdOf returns the active hold that the row would run into.
func (d *dispatch) holdOf(r *row) *hold {
	if r.destination.hold.active() && !d.single() {
		return &r.destination.hold
	}
	if len(d.topics) > 0 {
		if h := d.topics[topicOf(r)]; h.active() {
			return h
		}
	}
	return nil
}

// block blocks the row's key.
func (d *dispatch) block(r *row, c cause) *block {
	d.void = true
	if d.ordinal && d.member(r) {
		r.block.head = r.Position.Ordinal // what was before it in the re-read has been accepted
	}
	b := d.blocks.block(r.key, r.destination, c, r.Position.Ordinal)
	b.shard = r.Shard
	return b
}

// elsewhere reports whether the row's key has rows under way to another destination.
func (d *dispatch) elsewhere(r *row) bool {
	l := d.lanes[r.key]
	return l != nil && l.destination != r.destination
}

func (d *dispatch) route(topic string) *destination {
	for _, candidate := range d.destinations {
		if candidate.takes(topic) {
			return candidate
		}
	}
	return d.destinations[len(d.destinations)-1] // which takes everything
}

// enqueue puts a row in the queue of its key's worker.
func (d *dispatch) enqueue(r *row) {
	r.size = int64(r.Message.Size()) + rowOverhead
	r.worker = int(r.key.hash() % uint64(d.workers))
	d.inFlight[r.Identity()] = r
	d.shards.inFlight[r.Shard]++
	d.bytes += r.size
	if d.lanes != nil {
		l := d.lanes[r.key]
		if l == nil {
			l = &lane{destination: r.destination}
			d.lanes[r.key] = l
		}
		l.rows++
	}
	q := &r.destination.queues[r.worker]
	if late := d.ordinal && d.before(r.Position, d.walked); late && r.block == nil && !r.key.keyless {
		if d.latest.after(r.key.hash(), r.Position.Ordinal) {
			d.metrics.orderViolations(1)
		}
		r.late = true
		q.insert(r)
	} else {
		q.push(r)
	}
	if d.before(d.walked, r.Position) {
		d.walked = r.Position
	}
}

// rowOverhead is about what a row in flight takes besides its message.
const rowOverhead = 400
