package feed

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// doorbell decides whether writers are to ring. While rows are few, each writer is to ring: a notification in each
// transaction then costs little, and the relay need not poll meanwhile. Commits that notify wait for one another. So
// when rows are many, writers are not to ring, and the relay polls often instead. At 1,000 rows/s the relay adds 0.9 ms
// at p50 and 3.3 ms at p99; without the rings it adds 1.6 and 4.0 (test/bench, latency).
//
// An owner that found nothing for a while although each writer would have rung economizes: its pauses are longer, and
// it only glances at the table. A glance is one statement that reports whether any row is due, at any place in the
// order, so that a reconciliation scan would find nothing either. An idle owner then takes 0.13 % of a core; an owner that polls
// every 50 ms takes 1.2 to 1.4 % (test/bench, idle).
type doorbell struct {
	armed      time.Time     // since when writers have been ringing; zero if they do not
	idlePause  time.Duration // longest pause while economizing, and not shorter than otherwise
	economical bool
	calm       bool      // rows are few
	loud       time.Time // when rows were last many
	rate       float64   // rows per second
	rated      time.Time // time of that rate
	wrote      lately    // durations of small statements that marked rows, with their commits
	looked     time.Time // end of the last tail scan
	unglanced  time.Time // no glances before this time
	dear       int       // glances in a row that took long
}

const (
	busyRate  = 1500        // rows per second from which writers need not ring; less if rings would take too much time (ringShare)
	unsure    = 400         // replaces busyRate while it is not known how much time they take
	ringShare = 0.5         // largest share of the time for commits that notify, one after the other, and for the reads that rings cause
	calmShare = 0.75        // share of these rows per second up to which each writer rings again
	calmAfter = time.Second // time after which each writer may ring again
	rateShare = 250 * time.Millisecond

	idleAfter   = 10 * time.Second
	lookEvery   = time.Minute // while glances find nothing, since the numbers of transactions wrap around
	cheapGlance = 20 * time.Millisecond
	dearGlances = 3 // in a row, to show that the table costs it; a single one may have met a busy machine
)

// rung reports whether no row can have been committed recently without a ring. A writer that looked just before it was
// to ring commits a moment later.
func (f *Feed) rung(now time.Time) bool { return !f.armed.IsZero() && now.Sub(f.armed) > drowsyFor }

// economize decides, after a tail scan, whether pauses may be longer.
func (f *Feed) economize(ended time.Time) {
	f.economical = f.idlePause > f.interval && !f.armed.IsZero() && ended.Sub(f.armed) >= idleAfter &&
		f.caughtUp && ended.Sub(f.active) >= idleAfter
	f.looked = ended
}

// rings records a number of rows that were read, and returns how many writers may ring per second from now on, or 0 if none is to ring.
func (f *Feed) rings(rows int, now time.Time) float64 {
	f.rate = f.rate*math.Exp(-now.Sub(f.rated).Seconds()/rateShare.Seconds()) + float64(rows)/rateShare.Seconds()
	f.rated = now
	most := f.MostRings()
	if f.rate >= most {
		f.loud = now
	}
	f.calm = now.Sub(f.loud) >= calmAfter && (f.calm || f.rate < calmShare*most)
	if f.idle(now) || f.cheap() && f.calm {
		return most
	}
	return 0
}

// MostRings returns how many writers may ring per second. A commit that notifies excludes all others that notify until
// it is on disk, and on the standby if it waits for one. The relay's own marks show how long that takes, beyond a statement without a
// commit: 5 ms for each would leave writers 200 commits per second. Each ring causes a read, so reads count in the same way.
func (f *Feed) MostRings() float64 {
	if !f.wrote.full() {
		return unsure
	}
	look := f.looks.shortest()
	return min(busyRate, ringShare/max(f.wrote.median()-look, look).Seconds())
}

// Wrote records how long it took to mark a number of rows.
func (f *Feed) Wrote(rows int, took time.Duration) {
	if rows > 0 && rows <= flowRows {
		f.wrote.add(f.cost(took))
	}
}

// Glancing reports whether the next read is a glance, unless there is a hint.
func (f *Feed) Glancing(now time.Time) bool {
	return f.economical && f.caughtUp && !f.reconciliation.under && !now.Before(f.unglanced) && now.Sub(f.looked) < lookEvery
}

// glanced records a glance. If it has seen rows, they are looked for at once, by a reconciliation scan as well. If these rows only
// wait, or stepping over the relayed rows costs too much, there is no glance for a while.
func (f *Feed) glanced(page outbox.Page, took time.Duration, ended time.Time) {
	f.pace.due = ended.Add(max(f.idlePause, RestShare*f.cost(took)))
	if f.dear++; f.cost(took) <= cheapGlance {
		f.dear = 0
	}
	if page.More || f.dear == dearGlances {
		f.unglanced, f.dear = ended.Add(lookEvery), 0
	}
	if page.More {
		f.nudged, f.reconciliation.due = true, ended
	}
}
