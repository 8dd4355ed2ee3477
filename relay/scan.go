package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// scan is how far a catch-up scan has come. It goes in table order from the first row that was passed over, or further back as late
// commits demand, to where the walk has been, in pages, beside the walk. Like a walk of several pages it leaves out what was
// committed after it began. Only the loop touches it.
type scan struct {
	active  bool
	opening bool // its first page is to be read
	from    int64
	keys    []string // whose rows alone are read, nil for all
	next    int64    // from where on
	cursor  outbox.Position
	within  *outbox.Horizon
	spent   time.Duration
	alone   bool      // the walk waits for it: the last one was short and left keys of which the walk had passed over rows meanwhile
	rest    time.Time // no page is read before
}

const (
	// scanRest is how many times as long as what was of no use in a page the scans rest after it.
	scanRest = 3
	// shortScan is how long the walk may wait.
	shortScan = 50 * time.Millisecond
)

// wants reports whether there is anything to scan.
func (e *engine) scanWanted() bool {
	return e.feed.Scannable() && (e.scans.active || e.dispatch.catch.low != nothing)
}

// scan begins the read of the next page, if there is one to read.
func (e *engine) scan(now time.Time) bool {
	s := &e.scans
	if !e.scanWanted() || now.Before(s.rest) || e.patience[readScan].resting(now) {
		return false
	}
	rows, bytes := e.room.left(e.dispatch)
	if bytes <= 0 || !e.feed.Worth(rows) {
		return false
	}
	if !s.active {
		from, keys := e.dispatch.scanning()
		from = e.feed.Late.From(from)
		*s = scan{active: true, opening: true, from: from, keys: keys, next: from, alone: s.alone}
	}
	q := outbox.Query{Limit: min(rows, e.feed.Rows(min(bytes, e.room.most))), Upto: e.feed.Upto()}
	if q.Keys = s.keys; q.Keys != nil && s.next != everything {
		q.From = &s.next
	}
	switch {
	case q.Keys != nil:
		q.Horizon, q.Ended, q.Within = s.opening, s.opening, s.within
	case !s.opening:
		q.After, q.Within = s.cursor, s.within
	case s.from == everything:
		q.Horizon, q.Ended = true, true
	default:
		q.Recent, q.Horizon, q.Ended = &s.from, true, true
	}
	e.room.bound(&q, bytes)
	q.Shards = e.dispatch.shards.queried(e.dispatch.shards.active)
	e.begin(read{query: q, kind: readScan})
	return true
}

// takeScan takes a page of a scan.
func (e *engine) takeScan(r read) {
	s, d := &e.scans, e.dispatch
	if !s.active {
		d.ended()
		return
	}
	if s.opening {
		if !e.feed.Late.MayScan(&r.page.Ended) {
			e.feed.Nudge()
			e.abandonScan()
			d.decline(r.page.Rows, r.ended)
			return
		}
		s.opening, s.within = false, r.page.Horizon
	}
	taken, _ := d.take(r.page.Rows, fromScan, r.ended)
	s.cursor, d.catch.at = r.page.End, r.page.End
	if s.keys != nil && r.page.More {
		if at := r.page.End; at.Ordinal <= s.next || at.Unordered() {
			e.abandonScan() // too many rows have the same order value: the next one goes through the table
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
		e.metrics.wakeup(sourceRetry)
	}
	if !r.page.More {
		again := d.scanned(r.ended)
		d.dropVoid()
		s.active, s.alone = false, again > 0 && s.spent <= shortScan
	}
}

// abandonScan ends a scan that has not come to its end.
func (e *engine) abandonScan() {
	if e.scans.active {
		e.scans.active, e.scans.alone = false, false
		e.dispatch.abandonScan(e.scans.from)
	}
}
