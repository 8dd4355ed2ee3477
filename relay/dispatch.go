package relay

import (
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/outbox"
)

// dispatch owns the state of the relay: the rows in flight, their order, and what is held. It does no
// work of its own and never waits; one goroutine calls it and carries out what it says.
type dispatch struct {
	limits       Limits
	destinations []*destination
	workers      int  // for each destination
	ordinal      bool // table order is the order of ordinals
	keepFailures bool
	keepAttempts bool
	logger       *slog.Logger
	metrics      *metrics

	inFlight map[string]*row // by id, from being read to being settled or forgotten
	bytes    int64
	gone     map[string]struct{} // settled while a read was under way, which may still return them
	reading  bool
	shards   shards
	blocks   blocks
	topics   map[topic]*hold
	lanes    map[key]*lane // where each key's rows are under way, when there are several destinations
	void     bool          // rows in the queues have become void
	latest   latest
	walked   int64 // the largest ordinal taken
	rewind   *int64
	stopping bool

	rejected    []*row // accepted, and the database would not mark them
	rejectedDue time.Time

	settle []*row    // accepted, to be marked
	refuse []refusal // to be written
}

// destination is a Destination with its state.
type destination struct {
	*Destination
	index    int
	queues   []queue
	busy     []bool
	hold     hold
	accepted uint64
}

// lane is the destination in which a key has rows under way.
type lane struct {
	destination *destination
	rows        int
}

type refusal struct {
	row    *row
	err    error
	failed bool
}

func newDispatch(limits Limits, destinations []*Destination, workers, total int, table Table, logger *slog.Logger, m *metrics) *dispatch {
	d := &dispatch{limits: limits, workers: workers, ordinal: table.Ordinal() && !table.Ranked(), keepFailures: table.KeepsFailures(), keepAttempts: table.KeepsAttempts(),
		logger: logger, metrics: m, inFlight: map[string]*row{}, gone: map[string]struct{}{},
		blocks: blocks{byKey: map[key]*block{}}, topics: map[topic]*hold{}, shards: shards{total: total, inFlight: make([]int, total)}}
	for i, configured := range destinations {
		d.destinations = append(d.destinations, &destination{Destination: configured, index: i,
			queues: make([]queue, workers), busy: make([]bool, workers)})
	}
	if len(destinations) > 1 {
		d.lanes = map[key]*lane{}
	}
	return d
}

// room returns how many more rows and bytes may be taken.
func (d *dispatch) room() (rows int, bytes int64) {
	if len(d.blocks.byKey) >= maxBlocked {
		return 0, 0
	}
	return d.limits.Rows - len(d.inFlight), d.limits.Bytes - d.bytes
}

// maxBlocked bounds the keys that are remembered as blocked. Above it only they are read again.
const maxBlocked = 20_000

// take takes the rows of a read in table order and returns how many of them are new. reread are the blocks
// whose rows were read again, nil for other reads; more says that they may have further rows.
func (d *dispatch) take(rows []outbox.Row, reread []*block, more bool, now time.Time) int {
	taken := 0
	backing := make([]row, len(rows))
	for i := range rows {
		r := &backing[i]
		r.Row, r.key, r.attempt = &rows[i], keyOf(&rows[i]), rows[i].Attempt
		if d.admit(r, reread != nil, now) {
			taken++
		}
	}
	for _, b := range reread {
		if b.phase != reading {
			continue // it waits again
		}
		b.phase = trying
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
	return taken
}

// admit decides what becomes of one row that was read: it is queued, or known already, or it waits.
func (d *dispatch) admit(r *row, reread bool, now time.Time) bool {
	if _, known := d.inFlight[r.ID()]; known {
		return false
	}
	if _, settled := d.gone[r.ID()]; settled {
		return false
	}
	if !d.shards.reading.Has(r.Shard) {
		return false // it came to us or left us while the read was under way
	}
	b := d.blocks.byKey[r.key]
	if b != nil && (!reread || b.phase != reading || b.closed) {
		d.behind(b, r)
		return false
	}
	r.destination = d.route(r.Message.Topic)
	if name, err := r.destination.Topic.topic(r.Row); err != nil {
		r.Invalid = err
	} else {
		r.Message.Topic = name
	}
	if !d.single() {
		r.Message.DedupID += "/" + r.destination.Name
	}
	if b != nil && b.trying == 0 && !d.keepAttempts {
		r.attempt += b.refusals // which were of the key's first row
	}
	if wait := d.waits(r, b, now); wait {
		return false
	}
	if b != nil {
		r.block, r.generation = b, b.generation
		b.trying++
		if b.trying == 1 {
			b.head, r.unknown = r.Position.Ordinal, b.unknown
		}
		b.last = r.Position.Ordinal
	}
	d.enqueue(r)
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

// waits reports whether the row must wait, and then lets its key wait.
func (d *dispatch) waits(r *row, b *block, now time.Time) bool {
	var due time.Time
	h := d.holdOf(r)
	switch {
	case r.Retried && r.Waited < backoff(r.destination.BackoffMin, r.destination.BackoffMax, r.Message.ID, r.attempt):
		due = now.Add(backoff(r.destination.BackoffMin, r.destination.BackoffMax, r.Message.ID, r.attempt) - r.Waited)
		h = nil
	case h != nil && (b == nil || b.hold != h):
	case d.elsewhere(r):
		h = nil
	default:
		return false
	}
	if h != nil && r.key.keyless && b == nil && len(h.blocks) > 0 {
		h.skip(r.Position.Ordinal)
		return true
	}
	if b != nil && b.trying > 0 {
		// Rows before it go first; then the key is read again and begins with this one.
		b.dropped, b.closed = true, true
		return true
	}
	switch {
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

// single reports whether there is one destination, which keeps its rows in its queues while it is down.
// With several, the rows of one that is down make room for the others.
func (d *dispatch) single() bool { return len(d.destinations) == 1 }

// holdOf returns the active hold that the row would run into.
func (d *dispatch) holdOf(r *row) *hold {
	if r.destination.hold.active() && !d.single() {
		return &r.destination.hold
	}
	if len(d.topics) > 0 {
		if h := d.topics[topic{r.destination, r.Message.Topic}]; h.active() {
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
	d.inFlight[r.ID()] = r
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
	if late := d.ordinal && r.Position.Ordinal < d.walked; late && r.block == nil && !r.key.keyless {
		if d.latest.after(r.key.hash(), r.Position.Ordinal) {
			d.metrics.orderViolations(1)
		}
		r.late = true
		q.insert(r)
	} else {
		q.push(r)
	}
	d.walked = max(d.walked, r.Position.Ordinal)
}

// rowOverhead is about what a row in flight takes besides its message.
const rowOverhead = 400

// batch returns the rows that a worker publishes next, none when it has to wait.
func (d *dispatch) batch(to *destination, worker int, now time.Time) []*row {
	q := &to.queues[worker]
	if to.busy[worker] || q.len() == 0 {
		return nil
	}
	if d.single() && to.hold.active() && (to.hold.probing || now.Before(to.hold.until)) {
		return nil
	}
	var rows []*row
	var bytes int64
	for q.len() > 0 && len(rows) < d.limits.Batch && (len(rows) == 0 || bytes < d.limits.Bytes/2) {
		r := q.pop()
		if d.isVoid(r) {
			d.drop(r)
			continue
		}
		if h := d.holdOf(r); h != nil && (r.block == nil || r.block.hold != h) {
			// Queued before the hold began.
			if r.key.keyless && r.block == nil && len(h.blocks) > 0 {
				h.skip(r.Position.Ordinal)
			} else {
				d.blocks.waitFor(d.block(r, h.cause), h)
			}
			d.drop(r)
			continue
		}
		if alone := r.Invalid != nil || r.unknown >= aloneAfter; alone {
			if len(rows) > 0 {
				q.unpop([]*row{r})
				break
			}
			rows = append(rows, r)
			break
		}
		rows = append(rows, r)
		bytes += r.size
	}
	if len(rows) > 0 {
		to.busy[worker] = true
		if d.single() {
			to.hold.probing = to.hold.active()
		}
	}
	return rows
}

// aloneAfter is how many publishes of a row may end without an answer before it is tried alone, in
// case it is the one that breaks the connection.
const aloneAfter = 3

// dropVoid drops the queued rows whose key has been blocked since.
func (d *dispatch) dropVoid() {
	if !d.void {
		return
	}
	d.void = false
	for _, to := range d.destinations {
		for i := range to.queues {
			to.queues[i].filter(func(r *row) bool {
				if d.isVoid(r) {
					d.drop(r)
					return false
				}
				return true
			})
		}
	}
}

// isVoid reports whether the row's key has been blocked since the row was taken.
func (d *dispatch) isVoid(r *row) bool { return d.blocks.byKey[r.key] != nil && !d.member(r) }

// drop forgets a row that was not published; its blocked key is read again.
func (d *dispatch) drop(r *row) {
	if b := d.blocks.byKey[r.key]; b != nil {
		d.behind(b, r)
	}
	d.leaveLane(r)
	d.forget(r)
}

// forget ends a row's flight.
func (d *dispatch) forget(r *row) {
	delete(d.inFlight, r.ID())
	d.shards.inFlight[r.Shard]--
	d.bytes -= r.size
}

// leaveLane ends a row's part in the order over destinations: it was accepted, or dropped.
func (d *dispatch) leaveLane(r *row) {
	l := d.lanes[r.key]
	if l == nil {
		return
	}
	if l.rows--; l.rows == 0 {
		delete(d.lanes, r.key)
		if b := d.blocks.byKey[r.key]; b != nil && b.cause == causeOrder && b.phase == waiting {
			d.blocks.makeReady(b)
		}
	}
}

// finish ends a blocked key's re-read after all its rows were accepted.
func (d *dispatch) finish(b *block) {
	if b.dropped {
		d.blocks.makeReady(b)
		return
	}
	d.blocks.remove(b)
}

// begin notes that a read begins.
func (d *dispatch) begin() {
	d.reading = true
	d.shards.reading = d.shards.active
}

// failed notes that a read has failed; its blocks are read again.
func (d *dispatch) failed(reread []*block) {
	d.reading = false
	clear(d.gone)
	for _, b := range reread {
		if b.phase == reading {
			d.blocks.makeReady(b)
		}
	}
}

// stop drops everything that is not on the wire.
func (d *dispatch) stop() {
	d.stopping = true
	for _, to := range d.destinations {
		for i := range to.queues {
			to.queues[i].filter(func(r *row) bool {
				d.drop(r)
				return false
			})
		}
	}
}
