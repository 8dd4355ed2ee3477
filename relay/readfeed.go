package relay

import (
	"time"

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
	fresh, waiting := s.dispatch.Take(r.page.Rows, dispatch.FromFeed, r.ended)
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
