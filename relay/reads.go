package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// request is a read to make.
type request struct {
	query outbox.Query
	kind  kind
	waits []*wait       // whose heads are read
	limit time.Duration // it may take
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

// readMore begins the next read, if there is something to read and room for it. The walk, the scans, the reads of heads and those of due rows take turns:
// however many keys wait, other rows flow, and whatever flows, those that wait are tried.
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
		l.abandonScan()
		l.feed.again()
		l.due.again()
	}
	turns := [...]func(time.Time) bool{l.walk, l.scan, l.try, l.readDue}
	for i := range turns {
		if next := (l.turnOf + i) % len(turns); turns[next](now) {
			l.turnOf = next + 1
			return
		}
	}
}

// walk begins the feed's next read, if there is one to make.
func (l *loop) walk(now time.Time) bool {
	if l.patience.walk.resting(now) || l.scans.active && l.scans.alone {
		return false
	}
	rows, bytes := l.room.left(l.dispatch)
	l.feed.fit(min(l.limits.Rows-l.dispatch.stuck(), l.dispatch.limiter.furthest()))
	query, kind, ok := l.feed.next(now, rows, min(bytes, l.room.most))
	if !ok {
		return false
	}
	if kind == readWalk && query.After.IsZero() && query.Recent == nil && l.feed.anew() { // it brings what scans were to bring
		l.abandonScan()
		l.dispatch.walking()
		l.whole = true
	}
	l.room.bound(&query, bytes)
	query.Shards = l.dispatch.shards.queried(l.dispatch.shards.active)
	l.looked = l.looked || kind == readWalk
	l.begin(request{query: query, kind: kind})
	return true
}

// try begins a read of the heads of keys whose time has come. An older row of theirs may have been committed meanwhile: it is the
// walk's to find, which looks first where it has caught up.
func (l *loop) try(now time.Time) bool {
	rows, bytes := l.room.left(l.dispatch)
	if rows <= 0 || bytes <= 0 || l.feed.late.Lowered() || l.patience.trial.resting(now) || now.Before(l.dispatch.triable()) {
		return false
	}
	if rows = min(rows, l.feed.rows(min(bytes, l.room.most))); l.dispatch.outage.active() {
		rows = min(rows, probeKeys)
	}
	waits := l.dispatch.trials(rows, now)
	if len(waits) == 0 {
		return false
	}
	if l.feed.caughtUp && !l.looked && !l.patience.walk.resting(now) && !l.scans.alone && rows >= l.feed.least {
		l.feed.nudge()
		return l.walk(now)
	}
	l.looked = false
	q := outbox.Query{Limit: 2 * len(waits)}
	for _, w := range waits {
		q.IDs = append(q.IDs, w.headID)
	}
	l.room.bound(&q, bytes)
	l.begin(request{query: q, kind: readTrial, waits: waits})
	return true
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
	l.metrics.stage(l.to, stageFetch, took)
	if !r.cancelled {
		l.database.read(r.err)
	}
	var wants bool
	if r.kind == readTrial { // however many keys wait, they leave time to others
		l.patience.trial.rest = r.ended.Add(trialRest * took)
	}
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
	l.dispatch.clock.set(r.page.Now, r.ended)
	l.patience.of(r.request).ended(took)
	l.failedReads = 0
	switch {
	case l.dispatch.stopping, wants:
		if r.kind != readFailed {
			l.dispatch.ended()
			l.dispatch.notRead(r.waits, r.ended)
			l.feed.nudge()
		}
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
	if r.kind == readSweep || r.kind == readScan || r.kind == readTrial || r.kind == readFailed && !l.dispatch.failures.awaited() {
		share = restShare
	}
	over := l.patience.of(r.request).over(r.err, share, took, r.ended)
	if r.kind != readFailed {
		l.dispatch.ended()
		l.dispatch.notRead(r.waits, r.ended.Add(shortestHold))
	}
	l.scans.alone = false
	if over {
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

// takenFailed takes failed rows, and the page that waits for them. If keys are free now that nobody can name, the row for which they
// waited may be missing in that page, which is not taken: the walk begins anew.
func (l *loop) takenFailed(r response) {
	freed := l.dispatch.takeFailed(r.failed, l.feed.caughtUp, r.started, r.ended)
	waited := l.unchecked
	if waited == nil || l.dispatch.failures.afterwards {
		return
	}
	l.unchecked = nil
	if freed {
		l.dispatch.ended()
		l.dispatch.notRead(waited.waits, r.ended)
		return
	}
	l.take(*waited)
}

// take takes a page of pending rows.
func (l *loop) take(r response) {
	switch r.kind {
	case readTrial:
		if l.dispatch.takeTrials(r.waits, r.page.Rows, r.page.More, r.ended) > 0 {
			l.metrics.wakeup(sourceRetry)
		}
		return
	case readScan:
		l.takeScan(r)
		return
	case readDue:
		l.takeDue(r)
		return
	case readGlance:
		l.due.glanced(r.page, r.ended)
		if r.page.More {
			l.due.poll = r.ended
		}
	}
	if !l.feed.read(r.kind, r.page, r.started, r.ended) {
		l.dispatch.decline(r.page.Rows, r.ended)
		return
	}
	fresh, waiting := l.dispatch.take(r.page.Rows, fromWalk, r.ended)
	switch r.kind {
	case readWalk:
		if l.whole && l.feed.caughtUp {
			l.whole = false
			l.dispatch.closeUnmet(r.ended)
		}
		l.feed.passed(waiting, len(r.page.Rows))
		l.feed.armedSince = l.ownership.Armed()
		l.feed.pace(fresh, r.ended, l.ownership.Up())
		l.ownership.Arm(l.feed.rings(fresh+waiting, r.ended))
	case readSweep:
		if low, ok := l.feed.late.Bound(); ok && !l.feed.table.Delays() && l.dispatch.tookBefore(r.page.Rows, low) {
			l.feed.strays.found = true
		}
		if l.feed.swept(fresh, r.page.More, r.ended) {
			l.dispatch.late.ForgetAccepted()
		}
	}
	if fresh > 0 {
		l.metrics.wakeup(sourcePoll)
	}
}

// trialRest is how many times as long as a read of heads took there is none after it.
const trialRest = 4
