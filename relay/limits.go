package relay

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// shareOf returns a destination's share of the total limits. A destination with limits of its own has those; the others
// have equal parts of what is left. Nowhere, whose rows are never sent, gets its limits in addition to the total.
func shareOf(l dispatch.Limits, destinations []*Destination, d *Destination) dispatch.Limits {
	rows := func(d *Destination) int64 { return int64(d.MaxInFlight) }
	bytes := func(d *Destination) int64 { return d.MaxInFlightBytes }
	l.Rows, l.Bytes = int(part(int64(l.Rows), destinations, d, rows)), part(l.Bytes, destinations, d, bytes)
	if d.Name == nowhereName {
		l.Rows, l.Bytes = min(l.Rows, nowhereRows), min(l.Bytes, nowhereBytes)
	}
	l.Batch = min(l.Batch, l.Rows)
	return l
}

// part returns a destination's part of one limit. own returns a destination's own limit, or 0 for none.
func part(total int64, destinations []*Destination, d *Destination, own func(*Destination) int64) int64 {
	if own(d) > 0 {
		return own(d)
	}
	left, sharers := total, int64(0)
	for _, other := range destinations {
		if other.Name == nowhereName {
			continue
		}
		left -= own(other)
		if own(other) == 0 {
			sharers++
		}
	}
	return max(1, left/max(1, sharers))
}

// room decides how much may be read: what the rows in flight leave of the limits, and no more than can be sent soon. A
// row that is too large for this waits until there is room for it, or until almost nothing is in flight except rows
// that cannot be written, which may stay forever. Everything after the row waits with it. What could not be read in its
// time is read in smaller parts, down to a single row.
type room struct {
	total int64 // limit on the bytes in flight
	wants int64 // bytes that the next row takes
	most  int64 // limit on the bytes of one read
}

// left returns what one read may bring now: a number of rows, a number of bytes, and how large its first row may be.
func (r *room) left(d *dispatch.Dispatch) (rows int, bytes, first int64) {
	rows, bytes, unwritten := d.Room()
	switch {
	case bytes >= r.almostAll():
		first = math.MaxInt64
	case bytes >= r.wants:
		first = bytes
	case bytes+unwritten >= r.almostAll():
		bytes, first = max(bytes, 1), math.MaxInt64
	default:
		bytes = 0
	}
	return rows, min(bytes, r.most), first
}

// almostAll is the number of free bytes from which a row of any size may be taken.
func (r *room) almostAll() int64 { return r.total - r.total/4 }

// read records the result of a read that had the time limit, and reports whether there was no room for its first row.
func (r *room) read(q *outbox.Query, page *outbox.Page, err error, took, limit time.Duration) (wants bool) {
	switch {
	case tooLong(err, took, limit):
		r.most = max(q.Bytes/4, 1)
	case err == nil && took < limit/4:
		r.most = min(2*r.most, r.total)
	}
	r.wants = page.Wants
	return r.wants > 0
}

// tooLong reports whether a read has failed because there was too much to read. The server ends a read a little before
// its time is over.
func tooLong(err error, took, limit time.Duration) bool { return err != nil && took >= limit/4*3 }

// patience is how long a kind of read may take, and when it may be made again. A read that ran out of time is not
// repeated at once: it rests in proportion to the time it took, the other reads go first, and then it has twice the
// time. So a read that has to step over millions of dead entries, for instance, completes in the end and does not keep
// the others from running until then.
type patience struct {
	least, most time.Duration
	limit       time.Duration
	rest        time.Time // no read of the kind is made before this time
}

const (
	patienceShort = 3 * time.Second // for reads that the flow of rows does not need: the flow waits for them
	patienceMost  = 16              // times the statement timeout, for reads that it needs
)

// newPatiences returns the patience of each kind of read. All reads of the tail scan share one.
func newPatiences() map[feed.Kind]*patience {
	short := func() *patience {
		return &patience{least: patienceShort, most: dispatch.StatementTimeout, limit: patienceShort}
	}
	long := func() *patience {
		return &patience{least: dispatch.StatementTimeout, most: patienceMost * dispatch.StatementTimeout, limit: dispatch.StatementTimeout}
	}
	tail := long()
	return map[feed.Kind]*patience{
		feed.Tail: tail, feed.Head: tail, feed.Guard: tail, feed.Glance: tail,
		feed.Reconcile: short(), readScan: short(), readHeads: short(), readFailed: long(), readDue: long(),
	}
}

// over records a read that failed, and reports whether it ran out of time. If so, the next read of the kind has more
// time, and none is made for share times the time it took. If the server did not answer at all, it may have been away;
// then only the kinds that have little time rest.
func (p *patience) over(err error, share, took time.Duration, ended time.Time) bool {
	silent := outbox.TimedOut(err) && took >= p.limit
	if !outbox.Cancelled(err) && !(silent && p.least <= patienceShort) {
		return false
	}
	p.limit = min(2*p.limit, p.most)
	p.rest = ended.Add(share * took)
	return true
}

// ended records a read that was answered. The limit falls to twice the time taken, but not below the least.
func (p *patience) ended(took time.Duration) { p.limit = min(max(p.least, 2*took), p.limit) }

// resting reports whether the kind may not be read now.
func (p *patience) resting(now time.Time) bool { return now.Before(p.rest) }
