package relay

import (
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// meeting lets the marks of a row that several destinations have wait for each other: one UPDATE for all of them costs the database half of
// what one for each does. A mark waits for destinations that have the row in flight or have yet to come to it, which keeps destinations
// that are about equally fast in step. None of them pays for another one that is slow, away or far behind: what a destination waits is bounded for
// each row, bounded in all while it has no room to go on, and after some waits in vain there are no more until the other one has accepted a row
// that both had in flight.
//
// The settlement's mutex guards it.
type meeting struct {
	takes   []func(topic string) bool // by set of columns
	flying  map[string]uint64         // by id: in which sets of columns a row is in flight without an outcome, and inStep
	walked  []int64                   // by set of columns: the last order value that a walk has come to
	vain    []int                     // by set of columns: how often in a row others have waited for it in vain
	hurried bool                      // nobody waits any more
	alarm   *time.Timer
}

const (
	meetFor    = 200 * time.Millisecond // the longest that a mark waits
	mostVain   = 3
	mostCredit = 250 * time.Millisecond
	creditRate = 50 // a destination without room waits for one part in so many of the time, but for the first credit

	inStep = 1 << 63 // several destinations have had the row in flight at the same time
)

func newMeeting(takes []func(string) bool, ring func()) *meeting {
	m := &meeting{takes: takes, flying: map[string]uint64{}, walked: make([]int64, len(takes)), vain: make([]int, len(takes)),
		alarm: time.AfterFunc(meetFor, ring)}
	for i := range m.walked {
		m.walked[i] = math.MinInt64
	}
	return m
}

// takers returns for each set of columns which rows have a mark there, but for those that are to have it after the fact.
func takers(destinations []*Destination, columns []map[string]string) (takes []func(topic string) bool) {
	for _, own := range columns {
		takes = append(takes, func(topic string) bool {
			return slices.ContainsFunc(destinations, func(d *Destination) bool {
				return d.plain() && d.Name != nowhereName && maps.Equal(d.Columns, own) && pattern.Takes(d.Topics, topic)
			})
		})
	}
	return takes
}

// flights is what a destination tells the meeting of its rows.
type flights struct {
	*settlement
	state int
}

// flights returns those of the destinations with a set of columns, nil where only one destination has each row.
func (s *settlement) flights(state int) *flights {
	if s.meeting == nil {
		return nil
	}
	return &flights{s, state}
}

// others returns the other sets of columns that take rows of a topic.
func (v *flights) others(topic string) (set uint64) {
	if v == nil {
		return 0
	}
	for i, takes := range v.meeting.takes {
		if i != v.state && i < 63 && takes(topic) {
			set |= 1 << i
		}
	}
	return set
}

// begin notes that the destination has a row in flight.
func (v *flights) begin(r *row) {
	if v == nil || r.others == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	set := v.meeting.flying[r.ID()]
	if set != 0 {
		set |= inStep
	}
	v.meeting.flying[r.ID()] = set | 1<<v.state
}

// end notes that it has it no more. Marks that have waited for it go on when others do: many rows may end at once.
func (v *flights) end(r *row) {
	if v == nil || r.others == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.meeting.land(v.state, r)
}

// walk notes how far the destination has read.
func (v *flights) walk(upto int64) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.meeting.walked[v.state] = max(v.meeting.walked[v.state], upto)
}

// land notes that nobody waits for a destination's outcome of a row any more.
func (m *meeting) land(state int, r *row) {
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
		m.land(p.from.state, x.row)
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
func (m *meeting) awaited(r *row) (set uint64) {
	if r.others == 0 {
		return 0
	}
	flying := m.flying[r.ID()]
	for others := r.others; others != 0; others &= others - 1 {
		i := bits.TrailingZeros64(others)
		if m.vain[i] < mostVain && (flying&(1<<i) != 0 || m.walked[i] < r.Position.Ordinal) {
			set |= 1 << i
		}
	}
	return set
}

// waits reports whether the marks of a piece may wait.
func (m *meeting) waits(p *piece, now time.Time) bool {
	return m != nil && !m.hurried && now.Before(p.until) && (!p.from.full() || p.from.credit > 0)
}

// full reports whether what is gathered of a destination leaves it little room.
func (w *writer) full() bool { return w.rows > w.limits.Rows/2 || w.bytes > w.limits.Bytes/2 }

// look takes note of the time since the last look, which destinations have spent waiting or not.
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

// wait takes note of which destinations wait from now on, unless it is for the settlers, and has these look when the time is over.
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

// writers goes through the destinations of which something is gathered, with each piece.
func (m *meeting) writers(states []gathered) iter.Seq2[*writer, *piece] {
	return func(yield func(*writer, *piece) bool) {
		for i := range states {
			for j := range states[i].pieces {
				if p := &states[i].pieces[j]; m != nil && !yield(p.from, p) {
					return
				}
			}
		}
	}
}

// missed takes note of marks that go without those for which they have waited.
func (m *meeting) missed(p *piece) {
	if p.until.IsZero() {
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

// hurry lets no marks wait any more.
func (s *settlement) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meeting != nil {
		s.meeting.hurried = true
	}
	s.changed.Broadcast()
}
