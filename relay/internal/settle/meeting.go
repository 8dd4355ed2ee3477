package settle

import (
	"iter"
	"math"
	"math/bits"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// meeting makes the marks that several destinations have for one row wait for each other. One UPDATE for all of them
// costs the database half as much as one for each. A mark waits for destinations that have the row in flight or have
// yet to reach it, which keeps destinations of similar speed in step. A destination does not pay for another one that
// is slow, down or far back. Its waiting is limited for each row, and limited in total while it has no room to go on.
// After some waits in vain for another destination it stops waiting, until the other one has accepted a row that both
// had in flight.
//
// The settlement's mutex guards it.
type meeting struct {
	takes   []func(topic string) bool // by set of columns
	flying  map[string]uint64         // by id: the sets of columns in which a row is in flight without an outcome, and inStep
	reached []int64                   // by set of columns: the last order value that a tail scan has reached
	vain    []int                     // by set of columns: how often in a row other destinations have waited for it in vain
	hurried bool                      // marks do not wait any more
	apart   time.Time                 // end of a period without marks for several destinations
	alarm   *time.Timer
}

const (
	meetFor    = 200 * time.Millisecond // longest wait of a mark
	mostVain   = 3
	mostCredit = 250 * time.Millisecond
	creditRate = 50 // a destination without room waits for at most this fraction (1/50) of the time, beyond the first credit

	longJoin   = 500 * time.Millisecond // duration from which marks for several destinations are followed by a period without any
	apartShare = 20                     // length of that period, as a multiple of the duration

	inStep = 1 << 63 // several destinations have had the row in flight at the same time
)

func newMeeting(takes []func(string) bool, ring func()) *meeting {
	m := &meeting{
		takes: takes, flying: map[string]uint64{}, reached: make([]int64, len(takes)), vain: make([]int, len(takes)),
		alarm: time.AfterFunc(meetFor, ring),
	}
	for i := range m.reached {
		m.reached[i] = math.MinInt64
	}
	return m
}

// land notes that no mark waits for a destination's outcome of a row any more.
func (m *meeting) land(state int, r *dispatch.Row) {
	if left := m.flying[r.ID()] &^ (1 << state); left&^inStep != 0 {
		m.flying[r.ID()] = left
	} else {
		delete(m.flying, r.ID())
	}
}

// landed notes that the outcome of rows is known, and until when their marks may wait.
func (m *meeting) landed(p *piece, now time.Time) {
	if m == nil {
		return
	}
	for _, x := range p.refused {
		m.land(p.from.state, x.Row)
	}
	for _, r := range p.accepted {
		if m.flying[r.ID()]&inStep != 0 {
			m.vain[p.from.state] = 0
		}
		if m.land(p.from.state, r); m.awaited(r) != 0 {
			p.until = now.Add(meetFor)
		}
	}
}

// awaited returns the other sets of columns in which a row will have a mark soon.
func (m *meeting) awaited(r *dispatch.Row) (set uint64) {
	if r.Others == 0 {
		return 0
	}
	flying := m.flying[r.ID()]
	for others := r.Others; others != 0; others &= others - 1 {
		i := bits.TrailingZeros64(others)
		if m.vain[i] < mostVain && (flying&(1<<i) != 0 || m.reached[i] < r.Position.Ordinal) {
			set |= 1 << i
		}
	}
	return set
}

// waits reports whether the marks of a piece may wait.
func (m *meeting) waits(p *piece, now time.Time) bool {
	return m != nil && !m.hurried && !now.Before(m.apart) && now.Before(p.until) && (!p.from.full() || p.from.credit > 0)
}

// look accounts for the time since the last look, which destinations have spent waiting or not.
func (m *meeting) look(states []gathered, now time.Time) {
	for w := range m.writers(states) {
		took := now.Sub(w.looked)
		switch {
		case w.looked.IsZero():
			w.credit = mostCredit
		case w.waiting:
			w.credit -= took
		default:
			w.credit = min(w.credit+took/creditRate, mostCredit)
		}
		w.looked, w.waiting = now, false
	}
}

// wait notes which destinations wait from now on, unless they wait for the settlers, and wakes the settlers when the
// waiting time is over.
func (m *meeting) wait(states []gathered, busy bool, now time.Time) {
	if m == nil {
		return
	}
	const never = math.MaxInt64
	next := time.Duration(never)
	for w, p := range m.writers(states) {
		if !m.waits(p, now) {
			continue
		}
		next = min(next, p.until.Sub(now))
		if w.waiting = w.full() && !busy; w.waiting {
			next = min(next, w.credit)
		}
	}
	if next < never {
		m.alarm.Reset(next)
	}
}

// writers yields the destinations for which something is gathered, with each piece.
func (m *meeting) writers(states []gathered) iter.Seq2[*Writer, *piece] {
	return func(yield func(*Writer, *piece) bool) {
		for i := range states {
			for j := range states[i].pieces {
				if p := &states[i].pieces[j]; m != nil && !yield(p.from, p) {
					return
				}
			}
		}
	}
}

// missed records marks that are written without those for which they have waited.
func (m *meeting) missed(p *piece) {
	if m == nil || p.until.IsZero() {
		return
	}
	var set uint64
	for _, r := range p.accepted {
		set |= m.awaited(r)
	}
	for ; set != 0; set &= set - 1 {
		m.vain[bits.TrailingZeros64(set)]++
	}
}

// joins reports whether rows are marked for several destinations at once.
func (s *Settlement) joins(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meeting != nil && !now.Before(s.meeting.apart)
}

// joined records how long it took to mark rows for several destinations at once. If that was long, perhaps because of a
// trigger on the columns of one of them, each destination marks its rows by itself for some time, so that the others
// are not slowed down.
func (s *Settlement) joined(took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if took >= longJoin {
		s.meeting.apart = now.Add(apartShare * took)
	}
}

// Hurry makes marks wait no longer.
func (s *Settlement) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meeting != nil {
		s.meeting.hurried = true
	}
	s.changed.Broadcast()
}
