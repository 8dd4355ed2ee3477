package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// readDue begins a read of due rows, if one is to be made.
func (e *engine) readDue(now time.Time) bool {
	at, ok := e.due.Wait(e.feed.Glancing(now))
	rows, bytes := e.room.left(e.dispatch)
	if !ok || now.Before(at) || e.patience[readDue].resting(now) || bytes <= 0 || !e.feed.Worth(rows) {
		return false
	}
	q := e.due.Query(now)
	q.Limit = min(rows, e.feed.Rows(min(bytes, e.room.most)))
	e.room.bound(&q, bytes)
	q.Shards = e.dispatch.Queried()
	e.begin(read{query: q, kind: readDue})
	return true
}

// takeDue takes a page of due rows. While due rows come or wait, the owner is not idle.
func (e *engine) takeDue(r read) {
	fresh, waiting := e.dispatch.Take(r.page.Rows, dispatch.FromFeed, r.ended)
	e.due.Read(r.page, fresh, r.started, r.ended)
	if fresh+waiting > 0 {
		e.feed.Stir(r.ended)
	}
	if fresh > 0 {
		e.metrics.Wakeup(measure.SourcePoll)
	}
}
