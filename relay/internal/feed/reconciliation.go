package feed

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// reconciliation is the progress of the reconciliation scan, and when it goes on.
type reconciliation struct {
	under     bool // a reconciliation scan is under way
	at        outbox.Position
	within    *outbox.Horizon // nil before the first page
	due       time.Time
	rest      time.Time // no page is read before this time
	spent     time.Duration
	rows      int // number of rows that it has read
	fresh     int // number of new ones among them
	inVain    int // reconciliation scans in a row that found nothing
	tailReads int // reads of the tail scan since the reconciliation scan's last page
	strays    strays
	replaced  bool // the present tail scan begins at the very beginning, as a reconciliation scan does
	waiting   int  // number of rows of such a tail scan that must wait
}

const (
	reconcileEvery       = 5 * time.Second
	reconcileOften       = 500 * time.Millisecond // for tables whose rows can become due later
	tailReadsPerPage     = 8                      // while there is a backlog
	reconcileRestShare   = 50                     // rest as a multiple of the time the scan took; doubled by each that finds nothing
	longestReconcileRest = time.Minute
	mostInVain           = 5 // largest inVain that counts, so that a very cheap scan never becomes rare
)

// Reconciles reports whether there are reconciliation scans. They are not needed where each tail scan begins at the very beginning.
func (f *Feed) Reconciles() bool { return f.order.Ordinal() && !f.order.Ranked() }

func (f *Feed) reconcileTurn(now time.Time) bool {
	if !f.Reconciles() || f.Glancing(now) {
		return false
	}
	s := &f.reconciliation
	if !s.under && !now.Before(s.due) {
		s.under, s.at, s.within, s.spent, s.rows, s.fresh = true, outbox.Position{}, nil, 0, 0, 0
	}
	if now.Before(s.rest) {
		return false
	}
	return s.under && (f.caughtUp && s.tailReads > 0 || s.tailReads >= tailReadsPerPage)
}

// reconcilePage completes the query for the next page.
func (f *Feed) reconcilePage(q *outbox.Query) {
	upto := f.highest // what lies beyond is left to the tail scan, in order
	if q.Upto = &upto; f.caughtUp {
		q.Upto = f.Upto()
	}
	q.After, q.Horizon, q.Within = f.reconciliation.at, f.reconciliation.within == nil, f.reconciliation.within
}

// read records a page.
func (s *reconciliation) read(page outbox.Page, took time.Duration) {
	s.spent += took
	s.rows += len(page.Rows)
	s.tailReads, s.at = 0, page.End
	if page.Horizon != nil {
		s.within = page.Horizon
	}
}

// ReconciliationTaken records the number of new rows in a page of the reconciliation scan. After the last page the next
// reconciliation scan waits, longer if there is little to find: where a transaction that stays open keeps the server from
// cleaning up, each reconciliation scan reads everything that was relayed since. It reports whether the tail scan begins
// again because of what reconciliation scans have found.
func (f *Feed) ReconciliationTaken(fresh int, more bool, now time.Time) (again bool) {
	s := &f.reconciliation
	if s.fresh += fresh; more {
		return false
	}
	s.under = false
	if s.fresh > 0 || f.order.Delays() { // with Delays, rows become due at any time
		s.inVain = 0
	}
	pause := f.reconcilePause()
	switch {
	case s.fresh > 0: // there may be more
		pause = reconcileOften
	case !f.order.Delays():
		pause = max(pause, RestAfter(s.rows))
	}
	s.due = now.Add(max(pause, min(reconcileRestShare*s.spent<<s.inVain, longestReconcileRest), RestShare*s.spent))
	s.inVain = min(s.inVain+1, mostInVain)
	if again = s.strays.ended(); again {
		f.Again()
	}
	return again
}

// tailTaken records a page of the tail scan, of which a number of rows must wait. After a tail scan from the very beginning, the
// next reconciliation scan waits as after one that has read these rows in vain.
func (s *reconciliation) tailTaken(waiting int, more bool, now time.Time) {
	if s.waiting += waiting; s.replaced && !more {
		s.due, s.replaced = Later(s.due, now.Add(RestAfter(s.waiting))), false
	}
}

func (f *Feed) reconcilePause() time.Duration {
	if f.order.Delays() {
		return reconcileOften
	}
	return reconcileEvery
}

// Stray notes that the current reconciliation scan has found a row that lies before the low watermark.
func (f *Feed) Stray() { f.reconciliation.strays.found = true }

// strays detects that the order of the table has begun again below what has been read: the table was emptied and its
// sequence restarted, the sequence was set back, or a row had a value far above all others. Then only the reconciliation scan finds
// rows. When it has found some, the tail scan forgets how far it has been. If the next reconciliation scans find such rows again,
// rows have such values all the time, and the tail scan forgets its place less often.
type strays struct {
	found  bool // the current reconciliation scan has found a stray
	scans  int  // reconciliation scans in a row that found strays
	enough int  // so many of them make the tail scan begin again; 0 for one
}

// mostStrays is the largest number that is enough.
const mostStrays = 64

// ended notes that a reconciliation scan has reached its end, and reports whether the tail scan is to begin again.
func (s *strays) ended() bool {
	if !s.found {
		*s = strays{}
		return false
	}
	s.found = false
	if s.scans++; s.scans < s.enough {
		return false
	}
	s.scans, s.enough = 0, min(2*max(s.enough, 1), mostStrays)
	return true
}
