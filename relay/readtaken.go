package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// taken takes the result of a read. The error is of a table that has changed.
func (s *reads) taken(r read) error {
	s.busy = false
	took := r.ended.Sub(r.started)
	s.engine.to.measured.Stage(measure.StageFetch, took)
	tooFar := s.filters(&r.query) && tooLong(r.err, took, r.limit)
	if !r.cancelled && !(tooFar && outbox.Cancelled(r.err)) {
		s.engine.database.read(r.err)
	}
	if tooFar {
		s.scan.tooFar(&r)
		s.dispatch.Ended()
		return nil
	}
	wants := r.kind != readFailed && s.sized(&r, took)
	if r.kind == readHeads {
		s.patience[readHeads].rest = r.ended.Add(s.dispatch.TrialRest(r.waits, took))
	}
	if r.err != nil {
		return s.failed(r, took)
	}
	s.dispatch.SetClock(r.page.Now, r.ended)
	s.patience[r.kind].ended(took)
	s.failures = 0
	switch {
	case s.dispatch.Stopping(), wants:
		if r.kind != readFailed {
			s.dispatch.Ended()
			s.dispatch.NotRead(r.waits, r.ended)
			s.feed.Nudge()
		}
	case r.kind == readFailed:
		s.takenFailed(r)
	case s.dispatch.Failures.Check(r.page, r.ended):
		s.unchecked = &r
	default:
		s.take(r)
	}
	return nil
}

// sized adapts the size of the next reads to the result of one. It reports whether there was no room for its first row.
func (s *reads) sized(r *read, took time.Duration) (wants bool) {
	limit := s.patience[r.kind].limit
	if tooLong(r.err, took, limit) {
		s.feed.TooLong(r.query)
	}
	return s.room.read(&r.query, &r.page, r.err, took, limit)
}

// failed schedules a failed read to be made again after a pause. If it ran out of time, the other kinds of reads
// need not wait for the pause.
func (s *reads) failed(r read, took time.Duration) error {
	share, p := time.Duration(1), s.patience[r.kind]
	if p.short() || r.kind == readFailed && !s.dispatch.Failures.Awaited() {
		share = feed.RestShare
	}
	over := p.over(r.err, share, took, r.ended)
	if r.kind != readFailed {
		s.dispatch.Ended()
		s.dispatch.NotRead(r.waits, r.ended.Add(retry.ShortestHold))
	}
	s.scan.alone = false
	if over {
		s.feed.OutOfTime(r.kind, p.rest)
		return nil
	}
	s.failures++
	s.retry = r.ended.Add(retry.Pause(s.failures))
	s.feed.Retry(s.retry)
	if outbox.Changed(r.err) {
		return r.err
	}
	return nil
}

// takenFailed takes failed rows, and then the page that waits for them.
func (s *reads) takenFailed(r read) {
	s.dispatch.TakeFailed(r.failed, s.feed.CaughtUp(), r.started, r.ended)
	if waited := s.unchecked; waited != nil && !s.dispatch.Failures.Afterwards() {
		s.unchecked = nil
		s.take(*waited)
	}
}

// take takes a page of pending rows.
func (s *reads) take(r read) {
	switch r.kind {
	case readHeads:
		s.takeHeads(r)
	case readScan:
		s.takeScan(r)
	case readDue:
		s.takeDue(r)
	default:
		s.takeFeed(r)
	}
}
