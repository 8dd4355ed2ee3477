package relay

import (
	"slices"
	"sync"
)

// settlers is how many write at a time. While one statement waits for the disk, the other has the processor.
const settlers = 2

// settlement gathers what became of the rows of all destinations and hands it to the settlers of the process. What several destinations
// have to write to the same columns goes into the same statements. No row is ever with both settlers: destinations that keep its state
// in columns of their own would wait for each other's locks. What takes long or cannot be written steps aside ([settlement.aside]).
type settlement struct {
	batch  int    // with twice as many rows the second settler begins: small statements cost the database more a row
	ending func() // bounds what is under way from now on

	mu       sync.Mutex
	changed  *sync.Cond
	states   []gathered
	rows     int                 // gathered
	taken    map[string]struct{} // ids of the rows that settlers have; nil where only one destination has each row
	busy     int                 // settlers, but for the one that retries and those that have stepped aside
	again    []*order            // what could not be written before: each is tried on its own, and one at a time
	retrying bool
	closed   bool
	group    sync.WaitGroup // of the settlers
}

// gathered is what is to be written to one set of columns.
type gathered struct {
	table   Table
	pieces  []piece
	careful bool
	aside   int // settlers that have stepped aside with an order; nothing more is taken meanwhile
}

// order is an outcome that a settler writes, of the rows of some engines.
type order struct {
	outcome
	state  int // to which set of columns
	pieces []piece
	aside  bool // its settler has stepped aside
	over   bool // it is written
}

// piece is an engine's share of an outcome.
type piece struct {
	accepted []*row
	refused  []refusal
	result   chan<- outcome
}

func (p *piece) rows() int { return len(p.accepted) + len(p.refused) }

// newSettlement makes a settlement for tables each of which keeps the state of rows in other columns.
func newSettlement(batch int, tables []Table) *settlement {
	s := &settlement{batch: batch, ending: func() {}}
	s.changed = sync.NewCond(&s.mu)
	for _, table := range tables {
		s.states = append(s.states, gathered{table: table})
	}
	if len(tables) > 1 {
		s.taken = map[string]struct{}{}
	}
	return s
}

// write lets an outcome be written to a set of columns. The result comes in one or several outcomes.
func (s *settlement) write(state int, o outcome, result chan<- outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	g, p := &s.states[state], piece{o.accepted, o.refused, result}
	if o.again != fresh {
		o.table = g.table
		s.again = append(s.again, &order{outcome: o, state: state, pieces: []piece{p}})
		return
	}
	s.rows += p.rows()
	g.careful = g.careful || o.careful
	if i := slices.IndexFunc(g.pieces, func(p piece) bool { return p.result == result }); i >= 0 {
		there := &g.pieces[i]
		there.accepted, there.refused = append(there.accepted, p.accepted...), append(there.refused, p.refused...)
		return
	}
	g.pieces = append(g.pieces, p)
}

// next returns what a settler writes next, nil when there will be nothing more.
func (s *settlement) next() []*order {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if job := s.take(); job != nil || s.closed {
			return job
		}
		s.changed.Wait()
	}
}

// take returns what is to be written now, if anything is, and notes that a settler has it. The caller holds mu.
func (s *settlement) take() []*order {
	job := s.choose()
	for _, w := range job {
		s.note(w)
	}
	return job
}

// choose takes what is to be written now. The caller holds mu.
func (s *settlement) choose() (job []*order) {
	if !s.retrying {
		may := func(w *order) bool { return s.states[w.state].aside == 0 && !s.meets(w) }
		if i := slices.IndexFunc(s.again, may); i >= 0 {
			job, s.retrying = []*order{s.again[i]}, true
			s.again = slices.Delete(s.again, i, i+1)
			return job
		}
	}
	if s.rows == 0 || s.busy > 0 && s.rows < 2*s.batch {
		return nil
	}
	for i := range s.states {
		if s.states[i].aside > 0 {
			continue
		}
		if w := s.gather(i); len(w.pieces) > 0 {
			job = append(job, w)
		}
	}
	if job != nil {
		s.busy++
	}
	return job
}

// gather takes what is to be written to a set of columns, but for rows that the other settler has. The caller holds mu.
func (s *settlement) gather(state int) *order {
	g := &s.states[state]
	w := &order{outcome: outcome{table: g.table, careful: g.careful}, state: state}
	var left []piece
	for _, p := range g.pieces {
		now, later := p, piece{result: p.result}
		if len(s.taken) > 0 {
			now.accepted, later.accepted = apart(p.accepted, func(r *row) bool { return s.has(r) })
			now.refused, later.refused = apart(p.refused, func(x refusal) bool { return s.has(x.row) })
		}
		if now.rows() > 0 {
			s.rows -= now.rows()
			w.pieces = append(w.pieces, now)
			w.accepted, w.refused = append(w.accepted, now.accepted...), append(w.refused, now.refused...)
		}
		if later.rows() > 0 {
			left = append(left, later)
		}
	}
	g.pieces, g.careful = left, g.careful && left != nil
	return w
}

// apart returns the items of which stays does not hold, and the others.
func apart[T any](items []T, stays func(T) bool) (goes, stay []T) {
	for _, item := range items {
		if stays(item) {
			stay = append(stay, item)
		} else {
			goes = append(goes, item)
		}
	}
	return goes, stay
}

// has reports whether a settler has the row, for any destination. The caller holds mu.
func (s *settlement) has(r *row) bool {
	_, has := s.taken[r.ID()]
	return has
}

// meets reports whether a settler has one of the rows. The caller holds mu.
func (s *settlement) meets(w *order) bool {
	return len(s.taken) > 0 && (slices.ContainsFunc(w.accepted, s.has) ||
		slices.ContainsFunc(w.refused, func(x refusal) bool { return s.has(x.row) }))
}

// note notes that a settler has the rows. The caller holds mu.
func (s *settlement) note(w *order) {
	if s.taken == nil {
		return
	}
	for _, p := range w.pieces {
		for _, r := range p.accepted {
			s.taken[r.ID()] = struct{}{}
		}
		for _, x := range p.refused {
			s.taken[x.row.ID()] = struct{}{}
		}
	}
}

// done notes that a settler has written what it was given.
func (s *settlement) done(job []*order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job[0].again != fresh {
		s.retrying = false
	} else {
		s.busy--
	}
	for _, w := range job {
		if !w.aside {
			s.release(w)
		}
	}
	s.changed.Broadcast()
}

// release notes that no settler has the rows any more. The caller holds mu.
func (s *settlement) release(w *order) {
	for _, p := range w.pieces {
		for _, r := range p.accepted {
			delete(s.taken, r.ID())
		}
		for _, x := range p.refused {
			delete(s.taken, x.row.ID())
		}
	}
}

// close lets the settlers end: no engine has anything more to write.
func (s *settlement) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
}

// tell gives each engine its piece of what was written.
func (w *order) tell() {
	for _, p := range w.pieces {
		o := w.outcome
		o.accepted, o.refused = p.accepted, p.refused
		if len(w.pieces) > 1 {
			o.locked, o.written = p.among(w.locked), p.among(w.written)
			o.rejected, o.unwritable = p.among(w.rejected), p.among(w.unwritable)
		}
		p.result <- o
	}
}

// among returns those of the identities that belong to rows of the piece.
func (p *piece) among(identities map[string]bool) map[string]bool {
	own := map[string]bool{}
	if len(identities) == 0 {
		return own
	}
	for _, r := range p.accepted {
		if id := r.Identity(); identities[id] {
			own[id] = true
		}
	}
	for _, x := range p.refused {
		if id := x.row.Identity(); identities[id] {
			own[id] = true
		}
	}
	return own
}
