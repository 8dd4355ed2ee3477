package relay

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// scan is the progress of a catch-up scan. It goes in table order, in pages, alongside the tail scan. It begins at the
// first row that was passed over, or further back if late commits demand it, and ends at the place that the tail scan has
// reached. Like a tail scan of several pages, it leaves out what was committed after it began. Only the loop touches it.
type scan struct {
	opening bool // the first page is to be read
	from    int64
	keys    []string // the only keys whose rows are read; nil for all
	next    int64    // order value from which the next page is read
	cursor  outbox.Position
	within  *outbox.Horizon
	spent   time.Duration
	alone   bool      // the tail scan waits: the last catch-up scan was short, and rows of its keys were passed over meanwhile
	rest    time.Time // no page is read before this time
}

const (
	// scanRest is the pause of the scans, as a multiple of the time that rows of no use took in a page.
	scanRest = 3
	// shortScan is how long the tail scan may wait for a catch-up scan.
	shortScan = 50 * time.Millisecond
)

// scanWanted reports whether there is anything to scan.
func (e *engine) scanWanted() bool {
	return e.feed.Scannable() && e.dispatch.ScanWanted()
}

// scan begins the read of the next page, if one is to be read.
func (e *engine) scan(now time.Time) bool {
	s := &e.scans
	if !e.scanWanted() || now.Before(s.rest) || e.patience[readScan].resting(now) {
		return false
	}
	rows, bytes := e.room.left(e.dispatch)
	if bytes <= 0 || !e.feed.Worth(rows) {
		return false
	}
	if !e.dispatch.ScanUnder() {
		from, keys := e.dispatch.Scanning()
		from = e.feed.Late.From(from)
		*s = scan{opening: true, from: from, keys: keys, next: from, alone: s.alone}
	}
	q := outbox.Query{Limit: min(rows, e.feed.Rows(min(bytes, e.room.most))), Upto: e.feed.Upto()}
	if q.Keys = s.keys; q.Keys != nil && s.next != math.MinInt64 {
		q.From = &s.next
	}
	switch {
	case q.Keys != nil:
		q.Horizon, q.Ended, q.Within = s.opening, s.opening, s.within
	case !s.opening:
		q.After, q.Within = s.cursor, s.within
	case s.from == math.MinInt64:
		q.Horizon, q.Ended = true, true
	default:
		q.Recent, q.Horizon, q.Ended = &s.from, true, true
	}
	e.room.bound(&q, bytes)
	q.Shards = e.dispatch.Queried()
	e.begin(read{query: q, kind: readScan})
	return true
}

// takeScan takes a page of a scan.
func (e *engine) takeScan(r read) {
	s, d := &e.scans, e.dispatch
	if !d.ScanUnder() {
		d.Ended()
		return
	}
	if s.opening {
		if !e.feed.Late.MayScan(&r.page.Ended) {
			e.feed.Nudge()
			e.abandonScan()
			d.Decline(r.page.Rows, r.ended)
			return
		}
		s.opening, s.within = false, r.page.Horizon
	}
	taken := d.TakeScan(r.page, r.ended)
	s.cursor = r.page.End
	if s.keys != nil && r.page.More {
		if at := r.page.End; at.Ordinal <= s.next || at.Unordered() {
			e.abandonScan() // too many rows have the same order value; the next scan goes through the table
			return
		}
		s.next = r.page.End.Ordinal
	}
	took := r.ended.Sub(r.started)
	if n := len(r.page.Rows); n > 0 {
		s.rest = r.ended.Add(scanRest * took * time.Duration(n-taken) / time.Duration(n))
	}
	if s.spent += took; s.spent > shortScan {
		s.alone = false
	}
	if taken > 0 {
		e.metrics.Wakeup(measure.SourceRetry)
	}
	if !r.page.More {
		again := d.Scanned(r.ended)
		s.alone = again > 0 && s.spent <= shortScan
	}
}

// abandonScan ends a scan before its end.
func (e *engine) abandonScan() {
	if e.dispatch.ScanUnder() {
		e.scans.alone = false
		e.dispatch.AbandonScan(e.scans.from)
	}
}
