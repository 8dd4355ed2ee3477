package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

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
