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

// loop is a run of the engine.
type loop struct {
	*engine
	dispatch *dispatch
	feed     *feed

	requests  chan request
	responses chan response
	outcomes  chan outcome
	settled   chan outcome
	batches   [][]chan []*row // by destination and worker
	answers   chan answered

	reading     bool
	settling    int // statements under way
	publishing  int
	unchecked   *response // a page that is taken when the failed rows have been read
	retryRead   time.Time
	failedReads int
	changed     error // why the loop ends by itself
	abandoned   bool  // nothing can be written any more
	observed    time.Time
}

// turn is the loop.
func (l *loop) turn(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		l.beat.Store(now.UnixNano())
		moved := l.own()
		if done == nil || l.changed != nil {
			if !l.dispatch.stopping {
				l.dispatch.stop()
			}
			if !l.abandoned {
				l.settleMore(now)
			}
			if l.publishing == 0 && l.settling == 0 && !l.reading && (l.abandoned || !l.dispatch.locked.any()) {
				return l.changed
			}
		} else {
			l.publishMore(now)
			l.settleMore(now)
			l.readMore(now)
		}
		l.observe(now)
		timer.Reset(l.sleep(now))
		select {
		case <-done:
			done = nil
		case <-moved:
		case r := <-l.responses:
			l.taken(r)
		case a := <-l.answers:
			l.publishing--
			l.metrics.stage(stagePublish, a.took)
			l.dispatch.answer(a.worker.destination, a.worker.index, a.rows, a.errs, time.Now())
		case o := <-l.settled:
			l.settling--
			if o.err != nil {
				l.logger.Error("stopped before everything was written: these rows will be published again", "rows", len(o.accepted), "error", o.err)
				l.changed, l.abandoned = o.err, true
				continue
			}
			l.written(o)
		case source := <-l.wakes:
			l.metrics.wakeup(source)
			l.feed.hint()
			l.dispatch.failures.ask()
		case <-timer.C:
		}
	}
}

// own follows the shards that come to this replica and leave it.
func (l *loop) own() (moved <-chan struct{}) {
	state, moved := l.ownership.State()
	l.dispatch.own(state.Owned)
	if left := l.dispatch.left(state.Leaving); left != (owner.Set{}) {
		l.ownership.Left(left)
	}
	return moved
}

// publishMore gives every idle worker its next batch.
func (l *loop) publishMore(now time.Time) {
	if !now.Before(l.ownership.Trusted()) {
		return
	}
	for _, to := range l.dispatch.destinations {
		for i := range l.workers {
			if rows := l.dispatch.batch(to, i, now); rows != nil {
				l.publishing++
				l.batches[to.index][i] <- rows
			}
		}
	}
}

// settleMore lets a settler write what has gathered while all were busy. Beside one that is writing, another begins
// only with two batches: small statements cost the database more a row.
func (l *loop) settleMore(now time.Time) {
	d := l.dispatch
	d.retryRejected(now)
	d.retryLocked(now)
	n := len(d.settle) + len(d.refuse)
	if n == 0 || l.settling == settlers || l.settling > 0 && n < 2*l.limits.Batch {
		return
	}
	o := outcome{accepted: d.settle, refused: d.refuse, careful: d.locked.careful(now)}
	d.settle, d.refuse = nil, nil
	l.settling++
	l.outcomes <- o
}

// readMore begins the next read, if there is something to read and room for it.
func (l *loop) readMore(now time.Time) {
	if l.reading || now.Before(l.retryRead) {
		return
	}
	if query, ok := l.dispatch.failures.next(now); ok {
		query.Shards = l.dispatch.shards.queried(l.dispatch.failures.begun)
		l.reading = true
		l.requests <- request{query: query, kind: readFailed}
		return
	}
	if l.unchecked != nil || l.dispatch.shards.active == (owner.Set{}) {
		return
	}
	if l.dispatch.rewound() {
		l.feed.again()
	}
	if r, ok := l.reread(now); ok {
		l.begin(r)
		return
	}
	rows, bytes := l.dispatch.room()
	if query, kind, ok := l.feed.next(now, rows, bytes); ok {
		query.Shards = l.dispatch.shards.queried(l.dispatch.shards.active)
		l.begin(request{query: query, kind: kind})
	}
}

// reread returns the read of blocked keys whose time has come.
func (l *loop) reread(now time.Time) (request, bool) {
	rows, bytes := l.limits.Rows-len(l.dispatch.inFlight), l.limits.Bytes-l.dispatch.bytes
	if rows <= 0 || bytes <= 0 || l.feed.lowered { // the walk may find older rows of the keys
		return request{}, false
	}
	blocks := l.dispatch.rereads(now)
	if len(blocks) == 0 {
		return request{}, false
	}
	q := outbox.Query{Limit: min(rows, l.limits.Batch), Bytes: bytes}
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
	l.dispatch.begin()
	l.reading = true
	l.requests <- r
}

// read makes the reads, one at a time.
func (l *loop) read(ctx context.Context) {
	for r := range l.requests {
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, statementTimeout)
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
	l.metrics.stage(stageFetch, r.ended.Sub(r.started))
	if !r.cancelled {
		l.database.read(r.err)
	}
	if r.kind != readFailed && (r.err != nil || l.dispatch.stopping) {
		l.dispatch.failed(r.reread)
	}
	if r.err != nil {
		l.failedReads++
		l.retryRead = r.ended.Add(pause(l.failedReads))
		l.feed.retry(l.retryRead)
		if outbox.Changed(r.err) {
			l.changed = r.err
		}
		return
	}
	l.failedReads = 0
	switch {
	case l.dispatch.stopping:
	case r.kind == readFailed:
		l.takenFailed(r)
	case l.dispatch.failures.check(r.page, r.ended):
		l.unchecked = &r
	default:
		l.take(r)
	}
}

// takenFailed takes failed rows, and the page that waits for them. If keys are free now, the row for which they waited may be
// missing in that page: it is read again.
func (l *loop) takenFailed(r response) {
	freed := l.dispatch.takeFailed(r.failed, r.started, r.ended)
	if freed {
		l.feed.sweepSoon(r.ended)
	}
	waited := l.unchecked
	if waited == nil || l.dispatch.failures.afterwards {
		return
	}
	l.unchecked = nil
	if freed {
		l.feed.nudge()
		l.dispatch.failed(waited.reread)
		return
	}
	l.take(*waited)
}

// take takes a page of pending rows.
func (l *loop) take(r response) {
	if r.reread != nil {
		if low, _ := l.feed.low(); l.feed.missed(low, r.page.Snapshot) {
			l.feed.nudge()
			l.dispatch.failed(r.reread)
			return
		}
		if n := l.dispatch.take(r.page.Rows, r.reread, r.page.More, r.ended); n > 0 {
			l.metrics.wakeup(sourceRetry)
		}
		return
	}
	if !l.feed.read(r.kind, r.page, r.started, r.ended) {
		l.dispatch.failed(nil)
		return
	}
	fresh := l.dispatch.take(r.page.Rows, nil, false, r.ended)
	if r.kind == readWalk {
		l.feed.pace(fresh, r.ended, l.doorbell.Up())
		l.doorbell.Sleep(l.feed.idle(r.ended))
	}
	if fresh > 0 {
		l.metrics.wakeup(sourcePoll)
	}
}

func (l *loop) written(o outcome) {
	now := time.Now()
	if o.why != nil {
		l.logger.Error("rows cannot be written: a constraint or trigger of the table is in the way; they are tried again",
			"relayed", len(o.rejected), "refused", len(o.unwritable), "error", o.why)
	}
	l.dispatch.keepLocked(&o, now)
	l.metrics.relayed(l.dispatch.settled(o, now), now)
	l.dispatch.refusedWritten(o, now)
}

// sleep returns how long there is nothing to do but wait for others.
func (l *loop) sleep(now time.Time) time.Duration {
	until := now.Add(time.Second) // livez wants to see the loop turn
	earlier := func(t time.Time) {
		if t.Before(until) {
			until = t
		}
	}
	d := l.dispatch
	if d.stopping {
		return until.Sub(now)
	}
	if len(d.rejected) > 0 {
		earlier(d.rejectedDue)
	}
	if d.locked.any() {
		earlier(d.locked.due)
	}
	if due, ok := d.nextProbe(); ok && now.Before(l.ownership.Trusted()) {
		earlier(due)
	}
	if !l.reading {
		if due, ok := d.failures.wait(); ok {
			earlier(maxTime(due, l.retryRead))
		}
		if due, ok := d.nextReread(); ok && !l.feed.lowered && len(d.inFlight) < l.limits.Rows && d.bytes < l.limits.Bytes {
			earlier(maxTime(due, l.retryRead))
		}
		if rows, bytes := d.room(); d.shards.active != (owner.Set{}) && bytes > 0 && rows >= l.feed.least {
			earlier(maxTime(l.feed.wait(now), l.retryRead))
		}
	}
	return max(until.Sub(now), shortestPause/2) // whatever could begin now has begun
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// observe publishes the state for the gauges, not more often than anybody looks.
func (l *loop) observe(now time.Time) {
	if now.Sub(l.observed) < 100*time.Millisecond {
		return
	}
	l.observed = now
	held := l.dispatch.held()
	s := snapshot{inFlight: len(l.dispatch.inFlight), blocked: l.dispatch.blocked(held), held: held, down: map[*Destination]error{}, topics: l.dispatch.heldTopics()}
	for _, to := range l.dispatch.destinations {
		if to.hold.active() {
			s.down[to.Destination] = to.hold.err
		}
	}
	l.metrics.observe(s)
}
