package relay

import (
	"log/slog"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/late"
	"github.com/outbox-relay/outbox-relay/relay/internal/rate"
)

// dispatch owns the state of a destination's relay: the rows in flight, their order, and what waits. It does no
// work of its own and never blocks; one goroutine calls it and carries out what it says.
type dispatch struct {
	limits  Limits
	to      *Destination
	table   Table
	logger  *slog.Logger
	metrics *metrics

	inFlight map[string]*row // by identity, from being read to being settled or forgotten
	bytes    int64
	gone     map[string]struct{} // by identity: settled while a read was under way, which may still return them; nil while there is none
	shards   shards
	lanes    []lane // those of the workers, and two in which heads are tried
	turn     int    // the lane that is asked first: what tries after an outage must not always be of the same one
	taken    uint64 // rows, so far
	void     bool   // rows in the lanes may have become void

	waits    waits
	holds    holds
	outage   outage
	catch    catchup
	asking   []*wait   // whose heads are to be read
	failures *failures // nil where failed rows block nothing
	accepted uint64    // messages, so far

	late    *late.Commits
	sent    sent
	walked  outbox.Position // the last one taken
	rewind  bool            // the walk must begin anew: shards came
	unknown int             // rows dropped by the stop that may have been published

	stopping  bool
	notices   notices
	failedLog failedLog
	crowded   time.Time // until it is not told again that more keys wait than are remembered

	rejected rejected
	locked   locked
	limiter  *rate.Limiter // nil without a rate
	clock    clock         // the database's

	flights *flights // nil where only one destination has each row

	settle []*row    // accepted, to be marked
	refuse []refusal // to be written
}

// lane is the rows of one worker: those that wait, and those on the wire.
type lane struct {
	queue
	wire  []*row
	since time.Time // when these were handed over
}

// tryLanes are the lanes in which heads are tried, beside those of the workers: what may stay without an answer has one of its own.
const tryLanes = 2

type refusal struct {
	row    *row
	err    error
	failed bool
}

func newDispatch(limits Limits, to *Destination, workers, total int, table Table, logger *slog.Logger, m *metrics) *dispatch {
	d := &dispatch{limits: limits, to: to, table: table, logger: logger, failedLog: failedLog{logger: logger}, metrics: m,
		inFlight: map[string]*row{}, lanes: make([]lane, workers+tryLanes), holds: newHolds(), late: late.New(),
		notices: notices{}, shards: newShards(total), catch: catchup{low: nothing}, limiter: rate.New(to.Rate, total)}
	d.waits = newWaits(limits.remembered(), d.holds.orphaned)
	for i := range d.lanes {
		d.lanes[i].before = table.Before
	}
	if to.BlockFailed && table.KeepsFailures() {
		d.failures = &failures{}
	}
	return d
}

// ordered reports whether table order is the order of ordinals.
func (d *dispatch) ordered() bool { return d.table.Ordinal() && !d.table.Ranked() }

// workers returns how many lanes are for rows of keys that do not wait. Those behind them are for heads that are tried.
func (d *dispatch) workers() int { return len(d.lanes) - tryLanes }

// publishing reports whether rows are on the wire.
func (d *dispatch) publishing() bool {
	return slices.ContainsFunc(d.lanes, func(l lane) bool { return l.wire != nil })
}

// slow reports whether the destination keeps rows waiting.
func (d *dispatch) slow(now time.Time) bool {
	for i := range d.lanes {
		if d.lanes[i].wire != nil && now.Sub(d.lanes[i].since) > slowAfter {
			return true
		}
	}
	return d.outage.active()
}

// slowAfter is how long a healthy broker's answer may take.
const slowAfter = 500 * time.Millisecond

// room returns how many more rows and bytes may be taken.
func (d *dispatch) room() (rows int, bytes int64) {
	return d.limits.Rows - len(d.inFlight), d.limits.Bytes - d.bytes
}

// batch returns the rows that a lane's worker publishes next, none when it has to wait.
func (d *dispatch) batch(index int, now time.Time) []*row {
	l := &d.lanes[index]
	if l.wire != nil || l.len() == 0 || d.outage.waits(now) {
		return nil
	}
	most := d.limiter.Rows(d.limits.Batch, now)
	var rows []*row
	var bytes int64
	p := probing{active: d.outage.active()}
	for l.len() > 0 && len(rows) < most && (len(rows) == 0 || bytes < d.limits.Bytes/2) && !p.full() {
		r := l.pop()
		if d.expires(r, now) {
			if holdsKey(rows, r.hash) { // it goes before
				l.unpop([]*row{r})
				break
			}
			d.expire(r, now)
			continue
		}
		if d.isVoid(r) {
			d.drop(r)
			continue
		}
		if p.leaves(r) {
			continue
		}
		if h := d.holds.of(r); h != nil && r.wait == nil { // queued before the hold began
			d.join(r, h, now)
			d.remember(r)
			d.forget(r)
			continue
		}
		if alone := r.Invalid != nil || r.unknown >= aloneAfter; alone {
			if len(rows) > 0 {
				l.unpop([]*row{r})
				break
			}
			rows = append(rows, r)
			break
		}
		rows = append(rows, r)
		bytes += r.size
	}
	l.unpop(p.left)
	if l.wire = rows; len(rows) > 0 {
		d.outage.probing = d.outage.active()
		if rows[0].Invalid == nil { // others are sent to nobody
			d.limiter.Spend(len(rows))
		}
	}
	return rows
}

// aloneAfter is how many publishes of a row may end without an answer before it is tried alone, in
// case it is the one that breaks the connection.
const aloneAfter = 3

// dropVoid drops the queued rows whose key waits since.
func (d *dispatch) dropVoid() {
	for d.void {
		d.void = false
		for i := range d.lanes {
			d.lanes[i].filter(func(r *row) bool {
				if d.isVoid(r) {
					d.drop(r)
					return false
				}
				return true
			})
		}
	}
}

// isVoid reports whether the row's key waits since the row was taken, and the row must not go before the key does.
func (d *dispatch) isVoid(r *row) bool {
	w := d.waits.meets(r)
	switch {
	case d.failures.has(r):
		return true
	case w == nil, w.trial == r:
		return false
	case r.wait != nil:
		return true
	case d.catch.covers(w):
		return low(r) > w.next
	case !d.ordered():
		return r.number > w.number
	case w.state == catching:
		return low(r) > w.low
	default:
		return w.bars(low(r))
	}
}

// drop forgets a row that was not published. Its key is read again from there.
func (d *dispatch) drop(r *row) {
	w := d.waits.meets(r)
	switch {
	case d.failures.meets(r):
	case w != nil:
		d.passOver(w, low(r))
	}
	d.forget(r)
}

// forget ends a row's flight.
func (d *dispatch) forget(r *row) {
	delete(d.inFlight, r.Identity())
	d.shards.inFlight[r.Shard]--
	d.bytes -= r.size
	d.flights.end(r)
}

// rewound reports whether the walk must begin anew, which it does before the next read.
func (d *dispatch) rewound() bool {
	if !d.rewind {
		return false
	}
	d.rewind = false
	return true
}

// begin notes that a read begins.
func (d *dispatch) begin() {
	d.gone = map[string]struct{}{}
	d.shards.reading = d.shards.active
}

// ended notes that a read is over and that no more of it is taken.
func (d *dispatch) ended() {
	d.gone = nil
}

// unsettled returns, after the stop, how many rows were published, or may have been, and are not settled.
func (d *dispatch) unsettled() int { return len(d.inFlight) + d.unknown }

// stop drops everything that is not on the wire.
func (d *dispatch) stop() {
	d.stopping = true
	d.failedLog.end()
	for i := range d.lanes {
		d.lanes[i].filter(func(r *row) bool {
			if r.unknown > 0 {
				d.unknown++
			}
			d.forget(r)
			return false
		})
	}
}

// heldRows counts the rows that are known to wait, by reason.
func (d *dispatch) heldRows() map[cause]int64 {
	counts := map[cause]int64{}
	for c, n := range d.waits.counts {
		counts[c] += int64(n)
	}
	if d.outage.active() {
		for i := range d.lanes {
			counts[d.outage.cause] += int64(d.lanes[i].len())
		}
	}
	if d.failures != nil {
		counts[causeBehindFailed] += int64(d.failures.waiting)
	}
	return counts
}

// blocked counts the keys that wait, and those that would because they have a failed row.
func (d *dispatch) blocked() int {
	n := len(d.waits.byKey)
	if d.failures != nil {
		n += len(d.failures.known.heads)
	}
	return n
}

// classCause is what the rows are held for that were answered so.
func classCause(class publisher.Class) cause {
	if class == publisher.Topology {
		return causeTopology
	}
	return causeUnavailable
}
