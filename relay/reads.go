package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/outbox"
	"github.com/outbox-relay/outbox-relay/owner"
)

// request is a read to make.
type request struct {
	query  outbox.Query
	kind   kind
	reread []*block
	limit  time.Duration // it may take
}

// response is a request with its page.
type response struct {
	request
	page           outbox.Page
	failed         outbox.FailedPage // of a read of failed rows
	err            error
	cancelled      bool // the read was cut off, which says nothing about the database
	started, ended time.Time
}

// readMore begins the next read, if there is something to read and room for it.
func (l *loop) readMore(now time.Time) {
	if l.reading || now.Before(l.retryRead) {
		return
	}
	if !l.patience.failed.resting(now) {
		if query, ok := l.dispatch.failures.next(now); ok {
			query.Shards = l.dispatch.shards.queried(l.dispatch.failures.begun)
			l.reading = true
			l.requests <- request{query: query, kind: readFailed, limit: l.patience.failed.limit}
			return
		}
	}
	if l.unchecked != nil || l.dispatch.shards.active == (owner.Set{}) {
		return
	}
	if l.dispatch.rewound() {
		l.feed.again()
	}
	// The walk and the re-reads of blocked keys take turns, and after a re-read there is none for as long as that one took: however
	// many keys are blocked, and whatever it costs to read them, other rows flow.
	if l.walkNext && l.walk(now) {
		return
	}
	if !l.patience.reread.resting(now) {
		if r, ok := l.reread(now); ok {
			l.walkNext = true
			l.begin(r)
			return
		}
	}
	if !l.walkNext {
		l.walk(now)
	}
}

// walk begins the feed's next read, if there is one to make.
func (l *loop) walk(now time.Time) bool {
	if l.patience.walk.resting(now) {
		return false
	}
	rows, bytes := l.room.left(l.dispatch)
	l.feed.fit(l.limits.Rows - l.dispatch.stuck())
	query, kind, ok := l.feed.next(now, rows, min(bytes, l.room.most))
	if ok {
		l.room.bound(&query, bytes)
		query.Shards = l.dispatch.shards.queried(l.dispatch.shards.active)
		l.walkNext = false
		l.begin(request{query: query, kind: kind})
	}
	return ok
}

// reread returns the read of blocked keys whose time has come.
func (l *loop) reread(now time.Time) (request, bool) {
	rows, bytes := l.room.left(l.dispatch)
	if rows <= 0 || bytes <= 0 || l.feed.lowered { // the walk may find older rows of the keys
		return request{}, false
	}
	blocks := l.dispatch.rereads(now)
	if len(blocks) == 0 {
		return request{}, false
	}
	// Of keys that may not go yet there is no need to know more than the first row: it lies where it was seen last, so that such a
	// read ends there, and does not go through everything that is pending.
	want := 0
	for _, b := range blocks {
		want += b.want
	}
	q := outbox.Query{Limit: min(rows, want, l.feed.rows(min(bytes, l.room.most))), Ended: l.feed.open()}
	l.room.bound(&q, bytes)
	if blocks[0].key.keyless {
		for _, b := range blocks {
			q.IDs = append(q.IDs, b.key.text)
		}
		return request{query: q, reread: blocks}, true
	}
	from := blocks[0].head
	for _, b := range blocks {
		q.Keys = append(q.Keys, b.key.text)
		from = min(from, b.head)
	}
	// An older row of the key may have been committed since the walk came by, up to the bound of its late ones.
	if low, ok := l.feed.low(); ok && l.dispatch.ordinal {
		from = min(from, low.highest)
		q.From = &from
	}
	return request{query: q, reread: blocks}, true
}

func (l *loop) begin(r request) {
	r.limit = l.patience.of(r).limit
	l.dispatch.begin()
	l.reading = true
	l.requests <- r
}

// read makes the reads, one at a time.
func (l *loop) read(ctx context.Context) {
	for r := range l.requests {
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, r.limit)
		answer := response{request: r, started: started}
		if r.kind == readFailed {
			answer.failed, answer.err = l.table.Failed(limited, r.query)
		} else {
			answer.page, answer.err = l.table.Read(limited, r.query)
		}
		cancel()
		answer.cancelled, answer.ended = ctx.Err() != nil, time.Now()
		l.responses <- answer
	}
}

// taken takes the rows of a read.
func (l *loop) taken(r response) {
	l.reading = false
	took := r.ended.Sub(r.started)
	l.metrics.stage(stageFetch, took)
	if r.reread != nil {
		l.patience.reread.rest = r.ended.Add(took)
	}
	if !r.cancelled {
		l.database.read(r.err)
	}
	var wants bool
	if r.kind != readFailed {
		limit := l.patience.of(r.request).limit
		if wants = l.room.read(&r.query, &r.page, r.err, took, limit); tooLong(r.err, took, limit) {
			l.feed.tooLong(r.query)
		}
	}
	if r.err != nil {
		l.failedRead(r, took)
		return
	}
	l.patience.of(r.request).ended(took)
	if r.kind != readFailed && (wants || l.dispatch.stopping) {
		l.dispatch.failed(r.reread)
	}
	l.failedReads = 0
	switch {
	case l.dispatch.stopping:
	case wants:
		l.feed.nudge()
	case r.kind == readFailed:
		l.takenFailed(r)
	case l.dispatch.failures.check(r.page, r.ended):
		l.unchecked = &r
	default:
		l.take(r)
	}
}

// failedRead lets a read that failed be made again after a pause. If that was because its time was over, the other reads need not
// wait for that.
func (l *loop) failedRead(r response, took time.Duration) {
	share := time.Duration(1)
	if r.kind == readSweep || r.kind == readFailed && !l.dispatch.failures.awaited() {
		share = restShare
	}
	over := l.patience.of(r.request).over(r.err, share, took, r.ended)
	if r.kind != readFailed {
		l.dispatch.failed(nil)
		l.dispatch.putOff(r.reread, over, outbox.Cancelled(r.err), took, r.ended)
	}
	if l.walkNext = true; over {
		l.feed.outOfTime(r.kind, l.patience.of(r.request).rest)
		return
	}
	l.failedReads++
	l.retryRead = r.ended.Add(pause(l.failedReads))
	l.feed.retry(l.retryRead)
	if outbox.Changed(r.err) {
		l.changed = r.err
	}
}

// takenFailed takes failed rows, and the page that waits for them. If keys are free now, the row for which they waited may be
// missing in that page, which is not taken: the walk begins anew.
func (l *loop) takenFailed(r response) {
	freed := l.dispatch.takeFailed(r.failed, l.feed.caughtUp, r.started, r.ended)
	waited := l.unchecked
	if waited == nil || l.dispatch.failures.afterwards {
		return
	}
	l.unchecked = nil
	if freed {
		l.dispatch.failed(waited.reread)
		return
	}
	l.take(*waited)
}

// take takes a page of pending rows.
func (l *loop) take(r response) {
	if r.reread != nil {
		if low, _ := l.feed.low(); l.feed.missed(low, r.page.Ended) {
			l.feed.nudge()
			l.dispatch.failed(r.reread)
			return
		}
		if taken, _ := l.dispatch.take(r.page.Rows, r.reread, r.page.More, r.ended); taken > 0 {
			l.metrics.wakeup(sourceRetry)
		}
		return
	}
	if !l.feed.read(r.kind, r.page, r.started, r.ended) {
		l.dispatch.failed(nil)
		return
	}
	fresh, waiting := l.dispatch.take(r.page.Rows, nil, false, r.ended)
	switch r.kind {
	case readWalk:
		l.feed.passed(waiting, len(r.page.Rows))
		l.feed.armedSince = l.doorbell.Armed()
		l.feed.pace(fresh, r.ended, l.doorbell.Up())
		l.doorbell.Arm(l.feed.rings(fresh+waiting, r.ended))
	case readSweep:
		if low, ok := l.feed.low(); ok && !l.feed.table.Delays() && l.dispatch.tookBefore(r.page.Rows, low.highest) {
			l.feed.strays.found = true
		}
		if l.feed.swept(fresh, r.page.More, r.ended) {
			l.dispatch.latest = latest{} // what it knows may be of another order
		}
	}
	if fresh > 0 {
		l.metrics.wakeup(sourcePoll)
	}
}
