package relay

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// room says how much may be read: what the rows in flight leave of the limits, and no more than may be sent soon. A row that is too large for that waits until there is room for
// it, or next to nothing is in flight but rows that cannot be written, which may stay for ever; everything behind it waits with it. What
// could not be read in its time is read in smaller parts, down to a single row.
//
// Only the loop touches it.
type room struct {
	limits Limits
	wants  int64 // bytes that the next row takes
	most   int64 // bytes of one read
	alone  bool  // the next row may take any size
}

// left returns the rows and bytes that may be read now.
func (r *room) left(d *dispatch) (rows int, bytes int64) {
	rows, bytes = d.room()
	rows = min(rows, d.limiter.Ahead()-d.queued())
	if r.alone = bytes >= r.almostAll(); r.alone || bytes >= r.wants {
		return rows, bytes
	}
	if r.alone = bytes+d.unwritten() >= r.almostAll(); r.alone {
		return rows, max(bytes, 1)
	}
	return rows, 0
}

// unwritten returns the bytes of the rows whose outcome cannot be written at present.
func (d *dispatch) unwritten() (bytes int64) {
	for _, rows := range [][]*row{d.locked.accepted, d.rejected.rows} {
		for _, r := range rows {
			bytes += r.size
		}
	}
	for _, x := range d.locked.refused {
		bytes += x.row.size
	}
	return bytes
}

// almostAll is so much of the bytes that a row of any size may be taken.
func (r *room) almostAll() int64 { return r.limits.Bytes - r.limits.Bytes/4 }

// bound lets a query read no more than there is room for.
func (r *room) bound(q *outbox.Query, bytes int64) {
	q.Bytes, q.First = min(bytes, r.most), bytes
	if r.alone {
		q.First = math.MaxInt64
	}
}

// read takes note of how a read went that had so much time, and reports whether there was no room for its first row.
func (r *room) read(q *outbox.Query, page *outbox.Page, err error, took, limit time.Duration) (wants bool) {
	switch {
	case tooLong(err, took, limit):
		r.most = max(q.Bytes/4, 1)
	case err == nil && took < limit/4:
		r.most = min(2*r.most, r.limits.Bytes)
	}
	r.wants = page.Wants
	return r.wants > 0
}

// tooLong reports whether a read has failed because there was too much to read. The server ends it a little before its time is over.
func tooLong(err error, took, limit time.Duration) bool { return err != nil && took >= limit/4*3 }
