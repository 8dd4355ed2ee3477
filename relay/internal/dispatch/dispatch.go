// Package dispatch owns the state of one destination: the rows in flight, the order in which they are published, the
// keys that wait, and what is in trouble at the broker. It does no work of its own and never blocks: the engine carries
// out what it decides.
package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/keys"
	"github.com/outbox-relay/outbox-relay/relay/internal/rate"
	"github.com/outbox-relay/outbox-relay/relay/internal/report"
)

// Dispatch owns the state of a destination's relay: the rows in flight, their order, and what waits. It does no work of
// its own and never blocks. One goroutine calls it and carries out what it decides.
type Dispatch struct {
	Setup

	inFlight map[string]*Row     // by identity, from the read to the settlement, or until they are forgotten
	bytes    int64               // bytes of the rows in flight
	gone     map[string]struct{} // by identity: rows settled during a read, which may still return them; nil while nothing is read
	shards   shards
	lanes    []lane // lanes of the workers, and two in which heads are tried
	turn     int    // lane that is asked first, so that it is not always the same lane that tries after an outage
	taken    uint64 // number of rows taken
	void     bool   // queued rows may have become void: their keys have begun to wait

	waits    waits
	holds    holds
	outage   outage
	vain     vain
	failing  failing
	catch    catchup
	Failures *failures // nil where failed rows do not block keys
	accepted uint64    // number of accepted messages

	askingHeld askedHeads // keys whose heads are to be read to try a hold
	asking     askedHeads // other keys whose heads are to be read

	// By sentHash: rows whose outcome is unknown may leave memory before they are published again, and an operator may want
	// rows to be sent again that were accepted.
	sentUnknown, sentAccepted keys.Recent

	reached outbox.Position // the last row of the tail scan that was taken
	rewind  bool            // the tail scan must begin again: the replica has gained shards
	unknown int             // number of rows dropped by the stop that may have been published

	stopping   bool
	topicLog   report.Topics
	failureLog report.Failures
	crowded    time.Time // until when the log does not say again that more keys wait than are remembered

	rejected rejected
	locked   locked
	limiter  *rate.Limiter // nil if there is no rate
	aged     int           // number of reads that may well bring rows that are too old to be sent
	clock    clock         // the database's clock

	settle     []*Row    // accepted rows, to be marked
	refuse     []Refusal // refusals to be written
	unwritable time.Time // when the log last said that refusals cannot be written
}

// lane holds the rows of one worker: those that wait, and those on the wire.
type lane struct {
	queue
	wire  []*Row
	since time.Time // when the rows on the wire were handed over
	idle  bool      // all queued rows that were looked at are of keys of which a row is failing
}

// TryLanes is the number of lanes in which heads are tried, in addition to those of the workers. A row that may stay
// without an answer does not delay other rows there.
const TryLanes = 2

// A Refusal is a row that was not accepted and is tried again later, or has failed.
type Refusal struct {
	Row    *Row
	Err    error
	Failed bool
}

// New makes a dispatch that does not relay any shard yet.
func New(s Setup) *Dispatch {
	d := &Dispatch{
		Setup: s, topicLog: report.NewTopics(s.Logger), failureLog: report.Failures{Logger: s.Logger},
		inFlight: map[string]*Row{}, lanes: make([]lane, s.Workers+TryLanes), holds: newHolds(),
		failing: failing{rows: map[uint64]*Row{}}, shards: newShards(s.Shards), catch: catchup{low: nothing},
		limiter: rate.New(s.To.Rate, s.Shards),
	}
	d.waits = newWaits(cmp.Or(s.Limits.Keys, mostWaits), d.holds.orphaned)
	for i := range d.lanes {
		d.lanes[i].before = s.Table.Before
	}
	if s.To.BlockFailed && s.Table.KeepsFailures() {
		d.Failures = &failures{}
	}
	return d
}

// ordered reports whether table order is the order of ordinals.
func (d *Dispatch) ordered() bool { return d.Table.Ordinal() && !d.Table.Ranked() }

// workers returns the number of lanes for rows of keys that do not wait. The lanes after them are for heads that are
// tried.
func (d *Dispatch) workers() int { return len(d.lanes) - TryLanes }

// Stopping reports whether Stop has been called.
func (d *Dispatch) Stopping() bool { return d.stopping }

// Publishing reports whether rows are on the wire.
func (d *Dispatch) Publishing() bool {
	return slices.ContainsFunc(d.lanes, func(l lane) bool { return l.wire != nil })
}

// Slow reports whether the destination keeps rows waiting.
func (d *Dispatch) Slow(now time.Time) bool {
	for i := range d.lanes {
		if d.lanes[i].wire != nil && now.Sub(d.lanes[i].since) > slowAfter {
			return true
		}
	}
	return d.outage.active()
}

// slowAfter is how long an answer of a healthy broker may take.
const slowAfter = 500 * time.Millisecond

// Room returns how many more rows and bytes may be taken, and how many bytes are in flight whose outcome cannot be
// written at present.
func (d *Dispatch) Room() (rows int, bytes, unwritten int64) {
	return min(d.Limits.Rows-len(d.inFlight), d.ahead(d.limiter.Ahead())-d.queued()), d.Limits.Bytes - d.bytes, d.unwritten()
}

// Furthest returns the largest number of rows that there can be room for.
func (d *Dispatch) Furthest() int { return min(d.Limits.Rows-d.stuck(), d.ahead(d.limiter.Furthest())) }

// ahead returns how many rows may be read before they can be sent, if the rate allows n. Rows that fail because of their age do
// not wait for the rate, and those of the next reads may be as old.
func (d *Dispatch) ahead(n int) int {
	if d.aged > 0 {
		return max(n, d.Limits.Batch)
	}
	return n
}

// queued counts the rows that wait in their lanes.
func (d *Dispatch) queued() (n int) {
	for i := range d.lanes {
		n += d.lanes[i].len()
	}
	return n
}

// Hand gives every idle worker its next batch. After an outage, the lanes take turns at trying first.
func (d *Dispatch) Hand(now time.Time, to func(lane int, rows []*Row)) {
	d.failsSlowly(now)
	d.outageWithoutRows(now)
	for n := range d.lanes {
		i := (d.turn + n) % len(d.lanes)
		if rows := d.batch(i, now); rows != nil {
			d.turn = i + 1
			d.lanes[i].since = now
			to(i, rows)
		}
	}
}

// Next calls wake with each time at which there is something to hand over or to write again. may says whether rows may be handed over.
func (d *Dispatch) Next(may bool, now time.Time, wake func(time.Time)) {
	if len(d.rejected.rows) > 0 && !d.retrying() {
		wake(d.rejected.due)
	}
	if d.locked.any() && !d.retrying() {
		wake(d.locked.due)
	}
	switch {
	case !may:
	case d.vain.until.After(now):
		wake(d.vain.until)
	case d.waiting() && !d.outage.probing && (d.outage.active() || d.limiter != nil):
		wake(feed.Later(d.outage.until, d.limiter.Next(now))) // the next try in an outage, or the next row that the rate allows
	}
}

// batch returns the rows that a lane's worker publishes next, or nil if it has to wait.
func (d *Dispatch) batch(index int, now time.Time) []*Row {
	l := &d.lanes[index]
	if l.wire != nil || l.len() == 0 || l.idle || d.outage.waits(now) || now.Before(d.vain.until) {
		return nil
	}
	most := d.limiter.Rows(d.Limits.Batch, now)
	var rows []*Row
	var bytes int64
	p := probing{active: d.outage.active()}
	for l.len() > 0 && (len(rows) < most || d.expires(l.first(), now)) && (len(rows) == 0 || bytes < d.Limits.Bytes/2) && !p.full() {
		r := l.pop()
		goes, last := d.sends(r, rows, &p, now)
		if goes {
			rows = append(rows, r)
			bytes += r.Size
		} else if last {
			l.unpop([]*Row{r})
		}
		if last {
			break
		}
	}
	l.idle = len(rows) == 0 && len(p.left) > 0
	l.unpop(p.left)
	if l.wire = rows; len(rows) > 0 {
		d.outage.probing = d.outage.active()
		if rows[0].Invalid == nil { // an invalid row is not sent
			d.limiter.Spend(len(rows))
		}
	}
	return rows
}

// sends reports whether a row goes with the rows before it in a batch, and whether the batch ends there: with the row if it goes, and
// otherwise before it. A row that does not go now is left to a later batch, or forgotten.
func (d *Dispatch) sends(r *Row, before []*Row, p *probing, now time.Time) (goes, last bool) {
	switch {
	case d.failing.has(r):
		p.left = append(p.left, r)
	case d.expires(r, now):
		sameKey := func(older *Row) bool { return older.Hash == r.Hash }
		if slices.ContainsFunc(before, sameKey) { // an older row of the key goes first
			return false, true
		}
		d.expire(r)
	case d.isVoid(r):
		d.drop(r)
	case p.leaves(r):
	case d.holds.of(r) != nil && r.wait == nil: // the row was queued before the hold began
		d.join(r, d.holds.of(r), now)
		d.remember(r)
		d.forget(r)
	case r.Invalid != nil || r.unknown >= aloneAfter:
		return len(before) == 0, true
	default:
		return true, false
	}
	return false, false
}

// aloneAfter is how many publishes of a row may end without an answer before it is tried alone, in case it is the one
// that breaks the connection.
const aloneAfter = 3

// dropVoid drops the queued rows that have become void.
func (d *Dispatch) dropVoid() {
	for d.void {
		d.void = false
		for i := range d.lanes {
			d.lanes[i].filter(func(r *Row) bool {
				if d.isVoid(r) {
					d.drop(r)
					return false
				}
				return true
			})
		}
	}
}

// isVoid reports whether the row's key has begun to wait since the row was taken, so that the row must not go before
// the key does.
func (d *Dispatch) isVoid(r *Row) bool {
	w := d.waits.meets(r)
	switch {
	case d.Failures.has(r):
		return true
	case w == nil, w.trial == r:
		return false
	case r.wait != nil:
		return true
	case d.catch.covers(w):
		return low(r) > d.below(w.next) || !d.brought(w, r)
	case !d.ordered():
		return r.number > w.number
	case w.state == catching:
		return low(r) >= w.low
	default:
		return d.bars(w, r)
	}
}

// drop forgets a row that was not published. It will be read again when its key goes on.
func (d *Dispatch) drop(r *Row) {
	w := d.waits.meets(r)
	switch {
	case d.Failures.passOver(r):
		if w != nil && w.trial == r { // the key waits for its failed row instead
			d.Failures.lower(r.ordering(), min(w.head, w.low))
			d.waits.remove(w)
		}
	case w != nil:
		d.passOver(w, low(r))
	}
	d.forget(r)
}

// forget ends a row's flight.
func (d *Dispatch) forget(r *Row) {
	delete(d.inFlight, r.Identity())
	d.shards.inFlight[r.Shard]--
	d.bytes -= r.Size
	d.Flights.End(r)
}

// Rewound reports whether the tail scan must begin again before the next read, and resets that.
func (d *Dispatch) Rewound() bool {
	if !d.rewind {
		return false
	}
	d.rewind = false
	return true
}

// Begin notes that a read begins.
func (d *Dispatch) Begin() {
	d.gone = map[string]struct{}{}
	d.shards.reading = d.shards.active
}

// Ended notes that a read is over and that no more of its rows are taken.
func (d *Dispatch) Ended() {
	d.gone = nil
}

// Unsettled returns, after the stop, the number of rows that were published, or may have been, and are not settled.
func (d *Dispatch) Unsettled() int { return len(d.inFlight) + d.unknown }

// Stop drops everything that is not on the wire.
func (d *Dispatch) Stop() {
	d.stopping = true
	d.failureLog.End()
	for i := range d.lanes {
		d.lanes[i].filter(func(r *Row) bool {
			if r.unknown > 0 {
				d.unknown++
			}
			d.forget(r)
			return false
		})
	}
}

// classCause returns the cause for which rows with such an answer are held.
func classCause(class publisher.Class) Cause {
	if class == publisher.Topology {
		return CauseTopology
	}
	return CauseUnavailable
}
