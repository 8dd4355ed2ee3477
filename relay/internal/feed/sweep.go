package feed

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// sweep is how far the sweep has come, and when it goes on.
type sweep struct {
	under  bool // way
	at     outbox.Position
	within *outbox.Horizon // nil before its first page
	due    time.Time
	rest   time.Time // no page of it is read before
	spent  time.Duration
	fresh  int // new rows that it has found
	inVain int // sweeps in a row that found nothing
	walks  int // reads of the walk since its last page
	strays strays
}

const (
	sweepEvery     = 5 * time.Second
	sweepOften     = 500 * time.Millisecond // for tables whose rows can become due later
	walksPerSweep  = 8                      // while there is a backlog
	sweepRestShare = 50                     // so many times what a sweep took, twice that with each that finds nothing
	longestSweep   = time.Minute
	mostInVain     = 5 // that count: a sweep that costs next to nothing never becomes rare
)

// Sweeps reports whether there are sweeps. Where each walk begins at the beginning there is no need.
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
	upto := f.highest // what lies beyond is the walk's, in order
	if q.Upto = &upto; f.caughtUp {
		q.Upto = f.Upto()
	}
	q.After, q.Horizon, q.Within = f.sweep.at, f.sweep.within == nil, f.sweep.within
}

// read takes note of a page.
func (s *sweep) read(page outbox.Page, took time.Duration) {
	s.spent += took
	s.walks, s.at = 0, page.End
	if page.Horizon != nil {
		s.within = page.Horizon
	}
}

// Swept takes note of what was new in a page of the sweep. After the last one the next sweep waits, the longer the less there is to find:
// where a transaction that stays open keeps the server from cleaning up, each sweep reads all that was relayed since. It reports
// whether the walk begins again because of what sweeps have found.
func (f *Feed) Swept(fresh int, more bool, now time.Time) (again bool) {
	s := &f.sweep
	if s.fresh += fresh; more {
		return false
	}
	s.under = false
	if s.fresh > 0 || f.order.Delays() { // its rows become due at any time
		s.inVain = 0
	}
	pause := f.sweepPause()
	if s.fresh > 0 { // and there may be more
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

// Stray notes that the present sweep has found a row that lies before the bound of the tail reads.
func (f *Feed) Stray() { f.sweep.strays.found = true }

// strays tells when the order of the table has begun again below what has been walked: the table was emptied and its sequence
// with it, the sequence was set back, or one row had a value far beyond all others. The sweep alone finds rows then. When it has, the walk
// forgets how far it has been. If the next sweeps find some all the same, rows have such values all the time, and it is done more rarely.
type strays struct {
	found  bool // by the present sweep
	sweeps int  // in a row that found some
	enough int
}

const (
	fewStrays  = 1
	mostStrays = 64
)

// swept notes that a sweep has come to its end, and reports whether the walk is to begin again.
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
