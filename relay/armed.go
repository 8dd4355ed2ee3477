package relay

import (
	"math"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// armed is what the feed makes of the doorbell. While rows are few it wants each writer to ring: a notification in each transaction costs
// little then, and the relay need not look meanwhile. Commits that notify wait for one another, so it does not want that
// when rows are many, and looks often instead.
//
// An owner that found nothing for a while although each writer would have rung economizes: its pauses are longer, and it only glances
// at the table: one statement tells whether any row is due, wherever in the order, so that there is nothing for a sweep to find either.
type armed struct {
	armedSince time.Time     // writers have been ringing since then; zero if they do not
	idlePause  time.Duration // the longest while it economizes, and not less than otherwise
	economical bool
	cheap      bool             // the last reads were
	calm       bool             // rows are few
	rate       float64          // of rows, a second
	rated      time.Time        // when that was so
	wrote      [8]time.Duration // the last small statements that marked rows, with their commit
	writes     int
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
func (f *feed) rung(now time.Time) bool {
	return !f.armedSince.IsZero() && now.Sub(f.armedSince) > drowsyFor
}

// economize decides whether pauses may be longer, after a walk.
func (f *feed) economize(ended time.Time) {
	f.economical = f.idlePause > f.interval && !f.armedSince.IsZero() && ended.Sub(f.armedSince) >= idleAfter && f.caughtUp && ended.Sub(f.active) >= idleAfter
	f.looked = ended
}

// rings takes note of so many rows that were read, and reports whether each writer is to ring from now on.
func (f *feed) rings(rows int, now time.Time) bool {
	f.rate = f.rate*math.Exp(-now.Sub(f.rated).Seconds()/rateShare.Seconds()) + float64(rows)/rateShare.Seconds()
	f.rated = now
	most := f.mostRings()
	f.calm = f.rate < calmShare*most || f.calm && f.rate < most
	return f.idle(now) || f.cheap && f.calm
}

// mostRings is how many writers may ring in a second. A commit that notifies excludes all others that do until it is on disk, and at a standby
// that it has to wait for. What that takes, the relay's own commits tell: one that takes 5 ms would leave writers 200 commits a second.
func (f *feed) mostRings() float64 {
	if f.writes < len(f.wrote) {
		return busyRate
	}
	return min(busyRate, ringShare/slices.Min(f.wrote[:]).Seconds())
}

// written takes note of how long it took to mark so many rows.
func (f *feed) written(rows int, took time.Duration) {
	if rows > 0 && rows <= flowRows {
		f.wrote[f.writes%len(f.wrote)] = max(took, time.Microsecond)
		f.writes++
	}
}

// glancing reports whether the next read, unless there is a hint, is a glance.
func (f *feed) glancing(now time.Time) bool {
	return f.economical && f.caughtUp && !f.sweeping && !now.Before(f.unglanced) && now.Sub(f.looked) < lookEvery
}

// glanced takes note of a glance. Rows that it has seen are looked for at once, by a sweep too. If they only wait, or it costs too much to
// step over those that were relayed, there is none for a while.
func (f *feed) glanced(page outbox.Page, took time.Duration, ended time.Time) {
	f.due = ended.Add(max(f.idlePause, restShare*took))
	if f.dear++; took <= cheapGlance {
		f.dear = 0
	}
	if page.More || f.dear == dearGlances {
		f.unglanced, f.dear = ended.Add(lookEvery), 0
	}
	if page.More {
		f.nudged, f.sweepDue = true, ended
	}
}
