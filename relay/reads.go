package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// read is a read to make, and its result.
type read struct {
	query outbox.Query
	kind  feed.Kind
	waits []*dispatch.Wait // keys whose heads are read
	limit time.Duration    // longest time that the read may take

	page           outbox.Page
	failed         outbox.FailedPage // result of a read of failed rows
	err            error
	cancelled      bool // the read was interrupted, which says nothing about the database
	started, ended time.Time
}

// Kinds of reads that do not belong to the feed.
const (
	readFailed = feed.Others + iota // failed rows; see failures
	readScan                        // a page of a catch-up scan
	readTrial                       // the heads of keys that wait
	readDue                         // rows whose available_at has come
)

// readMore begins the next read, if there is something to read and room for it. The tail scan, the catch-up scans, the reads of heads
// and the reads of due rows take turns. So other rows flow however many keys wait, and waiting keys are tried however
// many rows flow.
func (e *engine) readMore(now time.Time) {
	if e.reading || now.Before(e.retryRead) {
		return
	}
	if !e.patience[readFailed].resting(now) {
		if query, ok := e.dispatch.NextFailed(now); ok {
			e.reading = true
			e.requests <- read{query: query, kind: readFailed, limit: e.patience[readFailed].limit}
			return
		}
	}
	if e.unchecked != nil || !e.dispatch.Relays() {
		return
	}
	if e.dispatch.Rewound() {
		e.abandonScan()
		e.feed.Again()
		e.due.Again()
	}
	turns := [...]func(time.Time) bool{e.tail, e.scan, e.try, e.readDue}
	for i := range turns {
		if next := (e.turnOf + i) % len(turns); turns[next](now) {
			e.turnOf = next + 1
			return
		}
	}
}

// tail begins the feed's next read, if one is to be made.
func (e *engine) tail(now time.Time) bool {
	if e.patience[feed.Tail].resting(now) || e.dispatch.ScanUnder() && e.scans.alone {
		return false
	}
	rows, bytes := e.room.left(e.dispatch)
	e.feed.Fit(e.dispatch.Furthest())
	query, kind, ok := e.feed.Next(now, rows, min(bytes, e.room.most))
	if !ok {
		return false
	}
	if e.feed.Whole(kind, query) { // this read brings what the catch-up scans were to bring
		e.abandonScan()
		e.dispatch.Whole()
		e.whole = true
	}
	e.room.bound(&query, bytes)
	query.Shards = e.dispatch.Queried()
	e.looked = e.looked || kind == feed.Tail
	e.begin(read{query: query, kind: kind})
	return true
}

// try begins a read of the heads of keys whose time has come. An older row of such a key may have been committed
// meanwhile. The tail scan finds it: once it has caught up, it looks for late rows before the heads are read.
func (e *engine) try(now time.Time) bool {
	rows, bytes := e.room.left(e.dispatch)
	if rows <= 0 || bytes <= 0 || e.feed.Late.Lowered() || e.patience[readTrial].resting(now) || now.Before(e.dispatch.Triable()) {
		return false
	}
	rows = e.dispatch.MostTrials(min(rows, e.feed.Rows(min(bytes, e.room.most))))
	waits := e.dispatch.Trials(rows, now)
	if len(waits) == 0 {
		return false
	}
	if e.feed.CaughtUp() && !e.looked && !e.patience[feed.Tail].resting(now) && !e.scans.alone && e.feed.Worth(rows) {
		e.feed.Nudge()
		return e.tail(now)
	}
	e.looked = false
	q := outbox.Query{Limit: 2 * len(waits)}
	for _, w := range waits {
		q.IDs = append(q.IDs, w.Head())
	}
	e.room.bound(&q, bytes)
	e.begin(read{query: q, kind: readTrial, waits: waits})
	return true
}

func (e *engine) begin(r read) {
	r.limit = e.patience[r.kind].limit
	e.dispatch.Begin()
	e.reading = true
	e.requests <- r
}

// read makes the reads, one at a time.
func (e *engine) read(ctx context.Context) {
	for r := range e.requests {
		r.started = time.Now()
		limited, cancel := context.WithTimeout(ctx, r.limit)
		if r.kind == readFailed {
			r.failed, r.err = e.table.Failed(limited, r.query)
		} else {
			r.page, r.err = e.table.Read(limited, r.query)
		}
		cancel()
		r.cancelled, r.ended = ctx.Err() != nil, time.Now()
		e.responses <- r
	}
}

// taken takes the result of a read.
func (e *engine) taken(r read) {
	e.reading = false
	took := r.ended.Sub(r.started)
	e.to.measured.Stage(measure.StageFetch, took)
	if !r.cancelled {
		e.database.read(r.err)
	}
	var wants bool
	if r.kind == readTrial { // however many keys wait, they leave time for other reads
		e.patience[readTrial].rest = r.ended.Add(trialRest * took)
	}
	if r.kind != readFailed {
		limit := e.patience[r.kind].limit
		if wants = e.room.read(&r.query, &r.page, r.err, took, limit); tooLong(r.err, took, limit) {
			e.feed.TooLong(r.query)
		}
	}
	if r.err != nil {
		e.failedRead(r, took)
		return
	}
	e.dispatch.SetClock(r.page.Now, r.ended)
	e.patience[r.kind].ended(took)
	e.failedReads = 0
	switch {
	case e.dispatch.Stopping(), wants:
		if r.kind != readFailed {
			e.dispatch.Ended()
			e.dispatch.NotRead(r.waits, r.ended)
			e.feed.Nudge()
		}
	case r.kind == readFailed:
		e.takenFailed(r)
	case e.dispatch.Failures.Check(r.page, r.ended):
		e.unchecked = &r
	default:
		e.take(r)
	}
}

// failedRead schedules a failed read to be made again after a pause. If it ran out of time, the other kinds of reads
// need not wait for the pause.
func (e *engine) failedRead(r read, took time.Duration) {
	share := time.Duration(1)
	if r.kind == feed.Reconcile || r.kind == readScan || r.kind == readTrial || r.kind == readFailed && !e.dispatch.Failures.Awaited() {
		share = feed.RestShare
	}
	over := e.patience[r.kind].over(r.err, share, took, r.ended)
	if r.kind != readFailed {
		e.dispatch.Ended()
		e.dispatch.NotRead(r.waits, r.ended.Add(retry.ShortestHold))
	}
	e.scans.alone = false
	if over {
		e.feed.OutOfTime(r.kind, e.patience[r.kind].rest)
		return
	}
	e.failedReads++
	e.retryRead = r.ended.Add(retry.Pause(e.failedReads))
	e.feed.Retry(e.retryRead)
	if outbox.Changed(r.err) {
		e.outdated = r.err
	}
}

// takenFailed takes failed rows, and then the page that waits for them. If keys have become free that cannot be named,
// the page may lack the row for which they waited. Then the page is not taken, and the tail scan begins again.
func (e *engine) takenFailed(r read) {
	freed := e.dispatch.TakeFailed(r.failed, e.feed.CaughtUp(), r.started, r.ended)
	waited := e.unchecked
	if waited == nil || e.dispatch.Failures.Afterwards() {
		return
	}
	e.unchecked = nil
	if freed {
		e.dispatch.Ended()
		e.dispatch.NotRead(waited.waits, r.ended)
		return
	}
	e.take(*waited)
}

// take takes a page of pending rows.
func (e *engine) take(r read) {
	switch r.kind {
	case readTrial:
		if e.dispatch.TakeTrials(r.waits, r.page.Rows, r.page.More, r.ended) > 0 {
			e.metrics.Wakeup(measure.SourceRetry)
		}
		return
	case readScan:
		e.takeScan(r)
		return
	case readDue:
		e.takeDue(r)
		return
	case feed.Glance:
		e.due.Glanced(r.page, r.ended)
	default: // the feed's own kinds
	}
	if !e.feed.Read(r.kind, r.page, r.started, r.ended) {
		e.dispatch.Decline(r.page.Rows, r.ended)
		return
	}
	fresh, waiting := e.dispatch.Take(r.page.Rows, dispatch.FromFeed, r.ended)
	switch r.kind {
	case feed.Tail:
		if e.whole && e.feed.CaughtUp() {
			e.whole = false
			e.dispatch.CloseUnmet(r.ended)
		}
		e.arm(e.feed.TailTaken(len(r.page.Rows), fresh, waiting, e.doorbell.Armed(), e.doorbell.Up(), r.ended))
	case feed.Reconcile:
		if low, ok := e.feed.Late.LowWatermark(); ok && !e.table.Delays() && e.dispatch.TookBefore(r.page.Rows, low) {
			e.feed.Stray()
		}
		if e.feed.ReconciliationTaken(fresh, r.page.More, r.ended) {
			e.feed.Late.ForgetAccepted()
		}
	default: // their rows have no further consequence
	}
	if fresh > 0 {
		e.metrics.Wakeup(measure.SourcePoll)
	}
}

// trialRest is the pause after a read of heads, as a multiple of the time it took.
const trialRest = 4
