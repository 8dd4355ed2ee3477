package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// readDue begins a read of due rows, if there is one to make.
func (e *engine) readDue(now time.Time) bool {
	at, ok := e.due.Wait(e.feed.Glancing(now))
	rows, bytes := e.room.left(e.dispatch)
	if !ok || now.Before(at) || e.patience[readDue].resting(now) || bytes <= 0 || !e.feed.Worth(rows) || e.dispatch.shards.active == (owner.Set{}) {
		return false
	}
	q := e.due.Query(now)
	q.Limit = min(rows, e.feed.Rows(min(bytes, e.room.most)))
	e.room.bound(&q, bytes)
	q.Shards = e.dispatch.shards.queried(e.dispatch.shards.active)
	e.begin(read{query: q, kind: readDue})
	return true
}

// takeDue takes a page of due rows. While some come or wait, the owner is not idle.
func (e *engine) takeDue(r read) {
	fresh, waiting := e.dispatch.take(r.page.Rows, fromWalk, r.ended)
	e.due.Read(r.page, fresh, r.started, r.ended)
	if fresh+waiting > 0 {
		e.feed.Stir(r.ended)
	}
	if fresh > 0 {
		e.metrics.wakeup(sourcePoll)
	}
}
