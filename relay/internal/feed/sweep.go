package feed

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// sweep is the progress of the sweep, and when it goes on.
type sweep struct {
	under  bool // a sweep is under way
	at     outbox.Position
	within *outbox.Horizon // nil before the first page
	due    time.Time
	rest   time.Time // no page is read before this time
	spent  time.Duration
	fresh  int // number of new rows that it has found
	inVain int // sweeps in a row that found nothing
	walks  int // reads of the walk since the sweep's last page
	strays strays
}

const (
	sweepEvery     = 5 * time.Second
	sweepOften     = 500 * time.Millisecond // for tables whose rows can become due later
	walksPerSweep  = 8                      // while there is a backlog
	sweepRestShare = 50                     // rest as a multiple of the time a sweep took; twice that with each that finds nothing
	longestSweep   = time.Minute
	mostInVain     = 5 // largest number of those that count, so that a very cheap sweep never becomes rare
)

// Sweeps reports whether there are sweeps. They are not needed where each walk begins at the very beginning.
func (f *Feed) Sweeps() bool { return f.order.Ordinal() && !f.order.Ranked() }

func (f *Feed) sweepTurn(now time.Time) bool {
	if !f.Sweeps() || f.Glancing(now) {
		return false
	}
	s := &f.sweep
	if !s.under && !now.Before(s.due) {
		s.under, s.at, s.within, s.spent, s.fresh = true, outbox.Position{}, nil, 0, 0
	}
	if now.Before(s.rest) {
		return false
	}
	return s.under && (f.caughtUp && s.walks > 0 || s.walks >= walksPerSweep)
}

// sweepPage completes the query for the next page.
func (f *Feed) sweepPage(q *outbox.Query) {
	upto := f.highest // what lies beyond is left to the walk, in order
	if q.Upto = &upto; f.caughtUp {
		q.Upto = f.Upto()
	}
	q.After, q.Horizon, q.Within = f.sweep.at, f.sweep.within == nil, f.sweep.within
}

// read records a page.
func (s *sweep) read(page outbox.Page, took time.Duration) {
	s.spent += took
	s.walks, s.at = 0, page.End
	if page.Horizon != nil {
		s.within = page.Horizon
	}
}

// Swept records the number of new rows in a page of the sweep. After the last page the next sweep waits, longer if
// there is little to find: where a transaction that stays open keeps the server from cleaning up, each sweep reads
// everything that was relayed since. It reports whether the walk begins again because of what sweeps have found.
func (f *Feed) Swept(fresh int, more bool, now time.Time) (again bool) {
	s := &f.sweep
	if s.fresh += fresh; more {
		return false
	}
	s.under = false
	if s.fresh > 0 || f.order.Delays() { // with Delays, rows become due at any time
		s.inVain = 0
	}
	pause := f.sweepPause()
	if s.fresh > 0 { // there may be more
		pause = sweepOften
	}
	s.due = now.Add(max(pause, min(sweepRestShare*s.spent<<s.inVain, longestSweep), RestShare*s.spent))
	s.inVain = min(s.inVain+1, mostInVain)
	if again = s.strays.swept(); again {
		f.Again()
	}
	return again
}

func (f *Feed) sweepPause() time.Duration {
	if f.order.Delays() {
		return sweepOften
	}
	return sweepEvery
}

// Stray notes that the current sweep has found a row that lies before the bound of the tail reads.
func (f *Feed) Stray() { f.sweep.strays.found = true }

// strays detects that the order of the table has begun again below what has been walked: the table was emptied and its
// sequence restarted, the sequence was set back, or a row had a value far above all others. Then only the sweep finds
// rows. When it has found some, the walk forgets how far it has been. If the next sweeps find such rows nevertheless,
// rows have such values all the time, and the walk forgets its place less often.
type strays struct {
	found  bool // the current sweep has found a stray
	sweeps int  // sweeps in a row that found strays
	enough int
}

const (
	fewStrays  = 1
	mostStrays = 64
)

// swept notes that a sweep has reached its end, and reports whether the walk is to begin again.
func (s *strays) swept() bool {
	found := s.found
	if s.found = false; !found {
		s.sweeps, s.enough = 0, fewStrays
		return false
	}
	if s.sweeps++; s.sweeps < max(s.enough, fewStrays) {
		return false
	}
	s.sweeps, s.enough = 0, min(2*max(s.enough, fewStrays), mostStrays)
	return true
}
