package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// trialRest is the pause after a read of heads, as a multiple of the time it took.
const trialRest = 4

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
