package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// readFeed begins the feed's next read, if one is to be made.
func (s *reads) readFeed(now time.Time) bool {
	if s.patience[feed.Tail].resting(now) || s.dispatch.ScanUnder() && s.scan.alone {
		return false
	}
	rows, bytes, first := s.room.left(s.dispatch)
	s.feed.Fit(s.dispatch.Furthest())
	if s.dispatch.ScanWanted() {
		s.feed.Bring()
	}
	query, kind, ok := s.feed.Next(now, rows, bytes)
	if !ok {
		return false
	}
	if s.feed.Whole(kind, query) { // this read brings what the catch-up scans were to bring
		s.abandonScan()
		s.dispatch.Whole()
		s.whole = true
	}
	query.Bytes, query.First, query.Shards = bytes, first, s.dispatch.Queried()
	s.looked = s.looked || kind == feed.Tail
	s.begin(read{query: query, kind: kind})
	return true
}

// takeFeed takes a page of one of the feed's reads.
func (s *reads) takeFeed(r read) {
	if r.kind == feed.Glance {
		s.due.Glanced(r.page, r.ended)
	}
	if !s.feed.Read(r.kind, r.page, r.started, r.ended) {
		s.dispatch.Decline(r.page.Rows, r.ended)
		return
	}
	from := dispatch.FromFeed
	if r.kind == feed.Reconcile {
		from = dispatch.FromReconciliation
	}
	fresh, waiting := s.dispatch.Take(r.page.Rows, from, r.ended)
	switch r.kind {
	case feed.Tail:
		if s.whole && s.feed.CaughtUp() {
			s.whole = false
			s.dispatch.CloseUnmet(r.ended)
		}
		bell := s.engine.doorbell
		s.engine.arm(s.feed.TailTaken(len(r.page.Rows), fresh, waiting, bell.Armed(), bell.Up(), r.ended))
	case feed.Reconcile:
		if low, ok := s.feed.Late.LowWatermark(); ok && !s.table.Delays() && s.dispatch.TookBefore(r.page.Rows, low) {
			s.feed.Stray()
		}
		if s.feed.ReconciliationTaken(fresh, r.page.More, r.ended) {
			s.feed.Late.ForgetAccepted()
		}
	default: // their rows have no further consequence
	}
	if fresh > 0 {
		s.engine.metrics.Wakeup(measure.SourcePoll)
	}
}

// readDue begins a read of due rows, if one is to be made.
func (s *reads) readDue(now time.Time) bool {
	at, ok := s.due.Wait(s.feed.Glancing(now))
	rows, bytes, first := s.room.left(s.dispatch)
	if !ok || now.Before(at) || s.patience[readDue].resting(now) || bytes <= 0 || !s.feed.Worth(rows) {
		return false
	}
	q := s.due.Query(now)
	q.Limit, q.Bytes, q.First = min(rows, s.feed.Rows(bytes)), bytes, first
	q.Shards = s.dispatch.Queried()
	s.begin(read{query: q, kind: readDue})
	return true
}

// takeDue takes a page of due rows. While due rows come or wait, the owner is not idle.
func (s *reads) takeDue(r read) {
	fresh, waiting := s.dispatch.Take(r.page.Rows, dispatch.FromFeed, r.ended)
	s.due.Read(r.page, fresh, r.started, r.ended)
	if fresh+waiting > 0 {
		s.feed.Stir(r.ended)
	}
	if fresh > 0 {
		s.engine.metrics.Wakeup(measure.SourcePoll)
	}
}

// readHeads begins a read of the heads of keys whose time has come. An older row of such a key may have been committed
// meanwhile. The tail scan finds it: once it has caught up, it looks for late rows before the heads are read.
func (s *reads) readHeads(now time.Time) bool {
	rows, bytes, first := s.room.left(s.dispatch)
	if rows <= 0 || bytes <= 0 || s.feed.Late.Lowered() || s.patience[readHeads].resting(now) || now.Before(s.dispatch.Triable()) {
		return false
	}
	rows = s.dispatch.MostTrials(min(rows, s.feed.Rows(bytes)))
	waits := s.dispatch.Trials(rows, now)
	if len(waits) == 0 {
		return false
	}
	if s.feed.CaughtUp() && !s.looked && !s.patience[feed.Tail].resting(now) && !s.scan.alone && s.feed.Worth(rows) {
		s.feed.Nudge()
		return s.readFeed(now)
	}
	s.looked = false
	q := outbox.Query{Limit: 2 * len(waits), Bytes: bytes, First: first}
	for _, w := range waits {
		q.IDs = append(q.IDs, w.Head())
	}
	s.begin(read{query: q, kind: readHeads, waits: waits})
	return true
}

// takeHeads takes the heads that were read.
func (s *reads) takeHeads(r read) {
	if s.dispatch.TakeTrials(r.waits, r.page.Rows, r.page.More, r.ended) > 0 {
		s.engine.metrics.Wakeup(measure.SourceRetry)
	}
}
