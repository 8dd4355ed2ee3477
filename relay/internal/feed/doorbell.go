package feed

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// doorbell is what the feed makes of writers that ring. While rows are few it wants each writer to ring: a notification in each transaction
// costs little then, and the relay need not look meanwhile. Commits that notify wait for one another, so it does not want that when rows are
// many, and looks often instead. At 200 rows/s the relay adds 0.8 ms at p50 and 3.7 ms at p99; without the rings it added 2.0 and 5.3
// (test/bench, latency).
//
// An owner that found nothing for a while although each writer would have rung economizes: its pauses are longer, and it only glances
// at the table: one statement tells whether any row is due, wherever in the order, so that there is nothing for a sweep to find either.
// An idle owner takes 0.13 % of a core then; one that polls every 50 ms takes 1.2 to 1.4 % (test/bench, idle).
type doorbell struct {
	armed      time.Time     // writers have been ringing since then; zero if they do not
	idlePause  time.Duration // the longest while it economizes, and not less than otherwise
	economical bool
	cheap      bool      // the last reads were
	calm       bool      // rows are few
	rate       float64   // of rows, a second
	rated      time.Time // when that was so
	wrote      lately    // small statements that marked rows, with their commit
	looked     time.Time // when the last walk ended
	unglanced  time.Time // there are no glances before then
	dear       int       // glances in a row that took long
}

const (
	busyRate  = 400  // rows a second from which on writers need not ring, or fewer:
	ringShare = 0.5  // commits that notify, one after the other, take no more of the time
	calmShare = 0.75 // of these rows a second, up to which each writer rings again
	rateShare = 250 * time.Millisecond

	idleAfter   = 10 * time.Second
	lookEvery   = time.Minute // while glances find nothing: the numbers of transactions go round
	cheapGlance = 20 * time.Millisecond
	dearGlances = 3 // in a row tell what the table costs; one may have met a busy machine
)

// rung reports whether a row cannot have been committed lately without a ring: a writer that looked just before it was to ring
// commits a moment later.
func (f *Feed) rung(now time.Time) bool { return !f.armed.IsZero() && now.Sub(f.armed) > drowsyFor }

// economize decides whether pauses may be longer, after a walk.
func (f *Feed) economize(ended time.Time) {
	f.economical = f.idlePause > f.interval && !f.armed.IsZero() && ended.Sub(f.armed) >= idleAfter && f.caughtUp && ended.Sub(f.active) >= idleAfter
	f.looked = ended
}

// rings takes note of so many rows that were read, and reports whether each writer is to ring from now on.
func (f *Feed) rings(rows int, now time.Time) bool {
	f.rate = f.rate*math.Exp(-now.Sub(f.rated).Seconds()/rateShare.Seconds()) + float64(rows)/rateShare.Seconds()
	f.rated = now
	most := f.MostRings()
	f.calm = f.rate < calmShare*most || f.calm && f.rate < most
	return f.idle(now) || f.cheap && f.calm
}

// MostRings is how many writers may ring in a second. A commit that notifies excludes all others that do until it is on disk, and at a standby
// that it has to wait for. What that takes, the relay's own commits tell: one that takes 5 ms would leave writers 200 commits a second.
func (f *Feed) MostRings() float64 {
	if !f.wrote.full() {
		return busyRate
	}
	return min(busyRate, ringShare/f.wrote.shortest().Seconds())
}

// Wrote takes note of how long it took to mark so many rows.
func (f *Feed) Wrote(rows int, took time.Duration) {
	if rows > 0 && rows <= flowRows {
		f.wrote.add(max(took, time.Microsecond))
	}
}

// Glancing reports whether the next read, unless there is a hint, is a glance.
func (f *Feed) Glancing(now time.Time) bool {
	return f.economical && f.caughtUp && !f.sweep.under && !now.Before(f.unglanced) && now.Sub(f.looked) < lookEvery
}

// glanced takes note of a glance. Rows that it has seen are looked for at once, by a sweep too. If they only wait, or it costs too much to
// step over those that were relayed, there is none for a while.
func (f *Feed) glanced(page outbox.Page, took time.Duration, ended time.Time) {
	f.pace.due = ended.Add(max(f.idlePause, RestShare*took))
	if f.dear++; took <= cheapGlance {
		f.dear = 0
	}
	if page.More || f.dear == dearGlances {
		f.unglanced, f.dear = ended.Add(lookEvery), 0
	}
	if page.More {
		f.nudged, f.sweep.due = true, ended
	}
}
