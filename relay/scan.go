package relay

import (
	"math"
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
func (l *loop) scanWanted() bool {
	return l.feed.sweeps() && !l.feed.late.Lowered() && l.feed.highest != math.MinInt64 && (l.scans.active || l.dispatch.catch.low != nothing)
}

// scan begins the read of the next page, if there is one to read.
func (l *loop) scan(now time.Time) bool {
	s := &l.scans
	if !l.scanWanted() || now.Before(s.rest) || l.patience.scan.resting(now) {
		return false
	}
	rows, bytes := l.room.left(l.dispatch)
	if bytes <= 0 || rows < l.feed.least {
		return false
	}
	if !s.active {
		from, keys := l.dispatch.scanning()
		from = l.feed.late.From(from)
		*s = scan{active: true, opening: true, from: from, keys: keys, next: from, alone: s.alone}
	}
	upto := l.feed.highest
	if upto < math.MaxInt64 {
		upto++ // the last row of the walk, too
	}
	q := outbox.Query{Limit: min(rows, l.feed.rows(min(bytes, l.room.most))), Upto: &upto}
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
	l.room.bound(&q, bytes)
	q.Shards = l.dispatch.shards.queried(l.dispatch.shards.active)
	l.begin(request{query: q, kind: readScan})
	return true
}

// takeScan takes a page of a scan.
func (l *loop) takeScan(r response) {
	s, d := &l.scans, l.dispatch
	if !s.active {
		d.ended()
		return
	}
	if s.opening {
		if !l.feed.late.MayScan(&r.page.Ended) {
			l.feed.nudge()
			l.abandonScan()
			d.decline(r.page.Rows, r.ended)
			return
		}
		s.opening, s.within = false, r.page.Horizon
	}
	taken, _ := d.take(r.page.Rows, fromScan, r.ended)
	s.cursor, d.catch.at = r.page.End, r.page.End
	if s.keys != nil && r.page.More {
		if at := r.page.End; at.Ordinal <= s.next || at.Unordered() {
			l.abandonScan() // too many rows have the same order value: the next one goes through the table
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
		l.metrics.wakeup(sourceRetry)
	}
	if !r.page.More {
		again := d.scanned(r.ended)
		d.dropVoid()
		s.active, s.alone = false, again > 0 && s.spent <= shortScan
	}
}

// abandonScan ends a scan that has not come to its end.
func (l *loop) abandonScan() {
	if l.scans.active {
		l.scans.active, l.scans.alone = false, false
		l.dispatch.abandonScan(l.scans.from)
	}
}
