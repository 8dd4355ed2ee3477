package relay

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
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
