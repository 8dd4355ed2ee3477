package engine

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// bell decides how long the tail rests, and whether writers are to ring meanwhile. While rows are few, each writer is
// to ring: a notification in each transaction then costs little, and the relay need not poll. Commits that notify wait
// for one another, so when rows are many, writers do not ring, and the relay polls often: with a notification in each,
// 8 and 32 clients made 5,300 and 4,500 transactions a second, and 12,700 and 15,800 with none.
//
// All of this only makes the relay fast. Without it a row waits for the next poll, and nothing else changes.
type bell struct {
	active time.Time // when new rows last came
	rate   float64   // rows per second, as a mean that forgets within rateShare
	rated  time.Time // of that
}

const (
	// ShortestPause is the shortest time between two first pages.
	ShortestPause = time.Millisecond

	rateShare = 250 * time.Millisecond // over which the rate is a mean: some looks of a flow that polls
	// A writer that looked at the doorbell's lock just before the relay took it commits without a ring. Its row waited
	// for a poll 8 to 16 ms away: the slowest of a hundred single rows.
	awakePause = 4 * time.Millisecond // for a while after rows came, before writers ring
	awakeFor   = 20 * time.Millisecond
	// idleAfter is how long nothing came before an owner whose doorbell works looks once a second. It makes 2.9
	// statements a second then; polling every 50 ms, an earlier version made 40.7.
	idleAfter = 10 * time.Second

	// shortestLook is the least that a look counts as: its 50 to 63 µs of PostgreSQL and the way there and back.
	shortestLook = 100 * time.Microsecond

	// At 1,000 rows a second a look takes half a millisecond. A rest of 20 times as long made a median of 10 to 20 ms
	// from commit to consumer, and a p99 of 57 to 61; with 4 times as long they were 3 and 14 ms.
	flowShare = 4 // rest while rows flow, as a multiple of the time that the read took
	// RestShare is the rest after work that is of no use to the flow of rows, as a multiple of the time it took.
	RestShare = 20
	// A look that brings more than flowRows new rows is no longer dearer than its rows, of which each takes rowShare at
	// most to be read and taken in.
	flowRows = 16
	rowShare = 50 * time.Microsecond
	// Without busyRest, 7,000 rows a second were read in a hundred batches a second, which left saturated writers 0.57
	// of their rate instead of 0.69.
	busyRest = 25 * time.Millisecond // shortest rest while more rows flow
	// droppedRow is the rest for each row that was read again in vain: about the time that it took.
	droppedRow = 20 * time.Microsecond
)

// Rings reports whether writers may ring, as far as this destination is concerned: rows are few.
func (e *Engine) Rings() bool { return e.bell.rate < outbox.MostRings }

// ring makes the tails look at once, unless many rows are coming: then a read for each writer would bring only a few
// of them, and the next look is near anyway. A look that is under way may not see the writer's row, so another one
// follows it.
func (e *Engine) ring() {
	if e.Rings() {
		e.tails[Tail].poll, e.tails[Due].poll = time.Time{}, time.Time{}
	}
}

// pace sets when a tail is read next, after a page with some new rows and others. Three things speak for a rest, and
// the longest wins: as long as nothing has come, from a millisecond to the poll interval, or a second where writers
// ring; a multiple of the time that the look has taken, so that a table that is dear to look at is looked at less; and
// a moment for each row that came in vain. If a writer has rung since the look began, another one follows at once.
func (e *Engine) pace(t *tail, r *Read, fresh, dropped int, armed, now time.Time) {
	b := &e.bell
	// On a busy machine one look takes a hundred times as long as the one before. With a rest by that time alone, or by
	// one that grows by a half from look to look, rows of a calm flow waited for 10 to 150 ms. By an eighth, it stays
	// near what a look takes when nothing is in its way, and a table whose looks became dear is looked at less often
	// after some dozens of them.
	look := now.Sub(r.began) - r.Page.Distance - time.Duration(fresh+dropped)*rowShare
	look = max(min(look, t.look+t.look/8), shortestLook)
	t.look = look
	rung := !armed.IsZero() && now.Sub(armed) > awakeFor // armed is since when each writer rings
	idle := now.Sub(b.active)
	pause := e.poll(rung && now.Sub(armed) >= idleAfter && idle >= idleAfter)
	switch {
	case rung:
	case idle < awakeFor:
		pause = min(pause, max(min(idle, awakePause), ShortestPause))
	default:
		pause = min(pause, idle)
	}
	rest := RestShare * look
	switch {
	case (fresh > 0 || idle < rateShare) && (fresh <= flowRows || b.rate < outbox.MostRings*5): // rows flow
		rest = flowShare * look
	case fresh > flowRows:
		rest = max(rest, min(busyRest, e.poll(false)))
	}
	if !t.poll.IsZero() {
		t.poll = now.Add(max(min(rest, time.Second), pause, time.Duration(dropped)*droppedRow))
	}
	if next := now.Add(r.Page.Next); r.Page.Next > 0 && next.Before(t.poll) {
		t.poll = later(next, now.Add(ShortestPause))
	}
	if r.Kind == Tail {
		b.rate = b.rate*math.Exp(-now.Sub(b.rated).Seconds()/rateShare.Seconds()) + float64(fresh)/rateShare.Seconds()
		b.rated = now
	}
}

// poll returns the longest pause between two first pages, if no interval was set: 50 ms, where an empty look costs
// PostgreSQL 0.03 ms, and a second for an idle owner for whom writers ring. No writer rings when a row becomes due.
func (e *Engine) poll(idle bool) time.Duration {
	switch {
	case e.Limits.Poll > 0:
		return e.Limits.Poll
	case idle && !e.Table.Delays():
		return time.Second
	}
	return 50 * time.Millisecond
}
