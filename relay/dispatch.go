package relay

import (
	"log/slog"
	"slices"
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

	inFlight  map[string]*row // by identity, from being read to being settled or forgotten
	bytes     int64
	gone      map[string]struct{} // by identity: settled while a read was under way, which may still return them
	reading   bool
	shards    shards
	blocks    blocks
	topics    map[topic]*hold
	repeats   repeats
	partials  map[topic]*partial
	failedLog failedLog
	failures  *failures     // nil where failed rows block nothing
	lanes     map[key]*lane // where each key's rows are under way, when there are several destinations
	void      bool          // rows in the queues have become void
	latest    latest
	sent      sent
	before    func(p, q outbox.Position) bool // in table order
	walked    outbox.Position                 // the last one taken
	leftOut   *leftOut
	overflow  hold // for rows passed over although their topic is not held
	passed    keySet
	rewind    bool // the walk must begin anew: shards came, or rows were passed over that may go now
	stopping  bool
	unknown   int // rows dropped by the stop that may have been published

	partialsSeen time.Time // when it was last looked which of them are over
	notices      notices
	crowded      time.Time // until it is not told again that more keys wait than are remembered

	rejected rejected
	locked   locked

	settle []*row    // accepted, to be marked
	refuse []refusal // to be written
}

// destination is a Destination with its state.
type destination struct {
	*Destination
	index    int
	queues   []queue
	busy     []bool
	turn     int // the worker that is asked first: what tries a held destination must not always be of the same one
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
	d := &dispatch{leftOut: newLeftOut(), limits: limits, workers: workers, before: table.Before, ordinal: table.Ordinal() && !table.Ranked(), keepFailures: table.KeepsFailures(), keepAttempts: table.KeepsAttempts(),
		logger: logger, failedLog: failedLog{logger: logger}, metrics: m, inFlight: map[string]*row{}, gone: map[string]struct{}{},
		blocks: blocks{byKey: map[key]*block{}}, overflow: hold{index: -1}, notices: notices{}, topics: map[topic]*hold{}, partials: map[topic]*partial{}, shards: newShards(total)}
	d.repeats = repeats{}
	for i, configured := range destinations {
		to := &destination{Destination: configured, index: i, queues: make([]queue, workers), busy: make([]bool, workers), hold: hold{index: -1}}
		for worker := range to.queues {
			to.queues[worker].before = table.Before
		}
		d.destinations = append(d.destinations, to)
	}
	if table.KeepsFailures() && slices.ContainsFunc(destinations, func(to *Destination) bool { return to.BlockFailed }) {
		d.failures = &failures{}
	}
	if len(destinations) > 1 {
		d.lanes = map[key]*lane{}
	}
	return d
}

// room returns how many more rows and bytes may be taken.
func (d *dispatch) room() (rows int, bytes int64) {
	return d.limits.Rows - len(d.inFlight), d.limits.Bytes - d.bytes
}

// full reports whether no more keys are remembered one by one as blocked. Those beyond are passed over.
func (d *dispatch) full() bool {
	return len(d.blocks.byKey) >= d.limits.blocked() || d.blocks.bytes >= maxBlockedBytes
}

const (
	maxBlocked      = 20_000
	maxBlockedBytes = 16 << 20 // of their texts
)

// single reports whether there is one destination, which keeps its rows in its queues while it is down.
// With several, the rows of one that is down make room for the others.
func (d *dispatch) single() bool { return len(d.destinations) == 1 }

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
	p := probing{active: d.single() && to.hold.active()}
	for q.len() > 0 && len(rows) < d.limits.Batch && (len(rows) == 0 || bytes < d.limits.Bytes/2) && !p.full() {
		r := q.pop()
		if d.isVoid(r) {
			d.drop(r)
			continue
		}
		if p.leaves(r) {
			continue
		}
		if h := d.holdOf(r); h != nil && (r.block == nil || r.block.hold != h) {
			// Queued before the hold began.
			switch {
			case r.key.keyless && r.block == nil && len(h.blocks) > 0:
				h.skipped = true
			case d.blocks.byKey[r.key] == nil && d.full():
				d.pass(r, h, now)
			default:
				b := d.block(r, h.cause)
				if r.unknown > 0 { // how often it was tried is known again when it is read again
					d.blocks.blame(b, r)
					b.unknown, b.accepted = r.unknown, to.accepted
				}
				d.blocks.waitFor(b, h)
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
	q.unpop(p.left)
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
func (d *dispatch) isVoid(r *row) bool {
	if d.blocks.byKey[r.key] == nil {
		return d.isPassed(r)
	}
	return !d.member(r)
}

// isPassed reports whether the row's key is passed over at present.
func (d *dispatch) isPassed(r *row) bool { return !r.key.keyless && d.passed.has(r.key) }

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
	delete(d.inFlight, r.Identity())
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

// rewound reports whether the walk must begin anew, which it does before the next read and after the last one
// was taken. What other holds passed over is met again then.
func (d *dispatch) rewound() bool {
	if !d.rewind {
		return false
	}
	d.dropVoid() // while it is known which keys were passed over
	d.rewind, d.passed = false, nil
	return true
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

// unsettled returns, after the stop, how many rows were published, or may have been, and are not settled.
func (d *dispatch) unsettled() int { return len(d.inFlight) + d.unknown }

// stop drops everything that is not on the wire.
func (d *dispatch) stop() {
	d.stopping = true
	d.failedLog.end()
	for _, to := range d.destinations {
		for i := range to.queues {
			to.queues[i].filter(func(r *row) bool {
				if r.unknown > 0 {
					d.unknown++
				}
				d.drop(r)
				return false
			})
		}
	}
}
