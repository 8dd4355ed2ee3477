package relay

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// lookback knows where a read of recent rows must begin to find those that were committed late.
//
// A transaction may have been open for longer than the bound reaches back. When one has ended, the rows of the read that finds out are
// not taken; the next one begins where that transaction cannot have inserted anything yet.
type lookback struct {
	marks   []mark
	undated bool            // the last of them has no number yet
	walked  time.Time       // when the last walk began that has come to its end
	seen    outbox.Snapshot // by the first page of the walk
	lowered bool            // the next walk begins before what the transaction ended may have inserted
	ended   uint32
}

// mark is the highest ordinal that had been seen at a time. Transactions from next on had inserted nothing up to there: that number
// had not been given when the next read began.
type mark struct {
	at      time.Time
	highest int64
	next    uint32
}

// mostMarks is how many are remembered, one each second.
const mostMarks = 1000

// low is the bound of a read of recent rows: the highest ordinal that had been seen some seconds before the last
// walk that has come to its end began. Times are bounded by the database's clock as well, in the statement.
// After the end of a transaction that had been open for longer, the bound is what had been seen before it began.
func (l *lookback) low() (mark, bool) {
	for _, m := range slices.Backward(l.marks) {
		if l.walked.Sub(m.at) >= outbox.Late && (!l.lowered || !before(l.ended, m.next)) {
			return m, true
		}
	}
	return mark{}, false
}

// missed reports whether a transaction has ended that may have inserted rows before the bound, so that a younger row of their keys
// may be among those that were read from there, before now. The next walk begins before them.
func (l *lookback) missed(bound mark, now outbox.Snapshot) bool {
	first, ok := l.seen.FirstEnded(&now)
	if !ok || bound.at.IsZero() || !before(first, bound.next) {
		return false
	}
	if !l.lowered || before(first, l.ended) {
		l.lowered, l.ended = true, first
	}
	return true
}

// open reports whether a transaction was running that may be found to have been missed when it ends.
func (l *lookback) open() bool { return len(l.seen.Running) > 0 || l.seen.Next != l.seen.Unassigned }

// before reports whether one transaction began before another. Their numbers go round.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// mark remembers what has been seen. The next read tells from which number on transactions come after that.
func (l *lookback) mark(at time.Time, highest int64) {
	if len(l.marks) == mostMarks {
		l.marks = append(l.marks[:0], l.marks[mostMarks/2:]...)
	}
	l.marks, l.undated = append(l.marks, mark{at: at, highest: highest}), true
}

// date completes the last mark: what was known when it was made had been inserted before this snapshot was taken.
func (l *lookback) date(now outbox.Snapshot) {
	if l.undated {
		l.marks[len(l.marks)-1].next, l.undated = now.Unassigned, false
	}
}
