package relay

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// scan is the progress of a catch-up scan. It goes in table order, in pages, alongside the tail scan. It begins at the
// first row that was passed over, or further back if late commits demand it, and ends at the place that the tail scan has
// reached. Like a tail scan of several pages, it leaves out what was committed after it began.
type scan struct {
	from   int64
	cursor outbox.Position
	within *outbox.Horizon // nil before the first page
	spent  time.Duration
	alone  bool // the tail scan waits: the last catch-up scan was short, and rows of its keys were passed over meanwhile

	most       int       // number of rows for which the database is made to look at once; 0 for a full page
	unfiltered time.Time // until this time, the database is not made to look for rows to which no index leads
}

const (
	// scanRest is the pause of the scans, as a multiple of the time that rows of no use took in a page.
	scanRest = 3
	// shortScan is how long the tail scan may wait for a catch-up scan.
	shortScan = 50 * time.Millisecond
	// filterLimit is how long the database may look for the rows of a page among those of other keys.
	filterLimit = 250 * time.Millisecond
	// fewerRows is by what the number of rows is divided for which it looks, after that took too long.
	fewerRows = 8
	// unfilteredFor is how long it is not made to look for any after it took too long for a single row.
	unfilteredFor = time.Minute
)

// scanWanted reports whether there is anything to scan.
func (s *reads) scanWanted() bool {
	return s.feed.Scannable() && s.dispatch.ScanWanted()
}

// readScan begins the read of the next page, if one is to be read.
func (s *reads) readScan(now time.Time) bool {
	c := &s.scan
	if !s.scanWanted() || s.patience[readScan].resting(now) {
		return false
	}
	rows, bytes, first := s.room.left(s.dispatch)
	if bytes <= 0 || !s.feed.Worth(rows) {
		return false
	}
	if !s.dispatch.ScanUnder() {
		from := s.feed.Late.From(s.dispatch.Scanning())
		*c = scan{from: from, alone: c.alone, most: c.most, unfiltered: c.unfiltered}
	}
	keys, null, ok := s.dispatch.ScanKeys(!now.Before(c.unfiltered))
	switch {
	case !ok:
		s.abandonScan()
		return false
	case keys != nil && len(keys) == 0 && !null:
		s.dispatch.Scanned(now)
		c.alone = false
		return false
	}
	q := outbox.Query{
		Limit: min(rows, s.feed.Rows(bytes)), Bytes: bytes, First: first, Shards: s.dispatch.Queried(),
		Upto: s.feed.Upto(), Keys: keys, NullKey: null,
	}
	c.page(&q)
	if s.filters(&q) && c.most > 0 {
		q.Limit = min(q.Limit, c.most)
	}
	s.begin(read{query: q, kind: readScan})
	return true
}

// page completes the query for the next page.
func (c *scan) page(q *outbox.Query) {
	if c.within != nil {
		q.After, q.Within = c.cursor, c.within
		return
	}
	q.Horizon, q.Ended = true, true
	switch {
	case c.from == math.MinInt64: // from the very beginning
	case q.Keys != nil:
		q.From = &c.from
	default:
		q.Recent = &c.from
	}
}

// takeScan takes a page of a scan.
func (s *reads) takeScan(r read) {
	c, d := &s.scan, s.dispatch
	if c.within == nil {
		if !s.feed.Late.MayScan(&r.page.Ended) {
			s.feed.Nudge()
			s.abandonScan()
			d.Decline(r.page.Rows, r.ended)
			return
		}
		c.within = r.page.Horizon
	}
	taken := d.TakeScan(r.page, r.ended)
	c.cursor = r.page.End
	took := r.ended.Sub(r.started)
	inVain := took
	if n := len(r.page.Rows); n > 0 {
		inVain = took * time.Duration(n-taken) / time.Duration(n)
	}
	s.patience[readScan].rest = r.ended.Add(scanRest * inVain)
	if s.filters(&r.query) && took < filterLimit/4 {
		c.most = 2 * min(c.most, r.query.Limit)
	}
	if c.spent += took; c.spent > shortScan {
		c.alone = false
	}
	if taken > 0 {
		s.engine.metrics.Wakeup(measure.SourceRetry)
	}
	if done := d.ScanDone(); done || !r.page.More {
		again := d.Scanned(r.ended)
		c.alone = again > 0 && c.spent <= shortScan && !done
	}
}

// filters reports whether a read makes the database look for rows to which no index leads.
func (s *reads) filters(q *outbox.Query) bool {
	return q.Keys != nil && (q.NullKey || !s.table.KeyIndexed())
}

// tooFar notes that the database has not found the rows of a page in time. It has to look for fewer, which may lie close together
// at the place where the scan is, and if it has not found a single one, the page is read with the rows of other keys.
func (c *scan) tooFar(r *read) {
	if c.most = max(r.query.Limit/fewerRows, 1); r.query.Limit == 1 {
		c.unfiltered = r.ended.Add(unfilteredFor)
	}
}

// abandonScan ends a scan before its end.
func (s *reads) abandonScan() {
	if s.dispatch.ScanUnder() {
		s.scan.alone = false
		s.dispatch.AbandonScan(s.scan.from)
	}
}
