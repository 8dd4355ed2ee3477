package relay

import (
	"slices"
	"sync"
	"time"
)

// settlers is how many write at a time. While one statement waits for the disk, the other has the processor.
const settlers = 2

// settlement gathers what became of the rows of all destinations and hands it to the settlers of the process. What several destinations
// have to write to the same columns goes into the same statements. No row is ever with both settlers: destinations that keep its state
// in columns of their own would wait for each other's locks. What takes long or cannot be written steps aside ([settlement.aside]). Marks of
// the same row wait a moment for each other ([meeting]).
type settlement struct {
	batch  int    // with twice as many rows the second settler begins: small statements cost the database more a row
	ending func() // bounds what is under way from now on

	mu       sync.Mutex
	changed  *sync.Cond
	states   []gathered
	rows     int                 // gathered
	taken    map[string]struct{} // ids of the rows that settlers have; nil where only one destination has each row
	meeting  *meeting            // nil as above
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
	from     *writer
	until    time.Time // its marks may wait for others
}

// writer is an engine as the settlement knows it.
type writer struct {
	state  int // to which set of columns it writes
	limits Limits
	result chan<- outcome

	rows    int // gathered
	bytes   int64
	credit  time.Duration // how long it may still wait without room
	waiting bool          // it does
	looked  time.Time
}

func (p *piece) rows() int { return len(p.accepted) + len(p.refused) }

func (p *piece) bytes() (n int64) {
	for _, r := range p.accepted {
		n += r.size
	}
	for _, x := range p.refused {
		n += x.row.size
	}
	return n
}

// newSettlement makes a settlement for tables each of which keeps the state of rows in other columns, and takes rows of some topics.
func newSettlement(batch int, tables []Table, takes []func(topic string) bool) *settlement {
	s := &settlement{batch: batch, ending: func() {}}
	s.changed = sync.NewCond(&s.mu)
	for _, table := range tables {
		s.states = append(s.states, gathered{table: table})
	}
	if len(tables) > 1 {
		s.taken, s.meeting = map[string]struct{}{}, newMeeting(takes, s.ring)
	}
	return s
}

// ring lets the settlers look.
func (s *settlement) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// write lets an engine's outcome be written. The result comes in one or several outcomes.
func (s *settlement) write(from *writer, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	g, p := &s.states[from.state], piece{accepted: o.accepted, refused: o.refused, from: from}
	if o.again != fresh {
		o.table = g.table
		s.again = append(s.again, &order{outcome: o, state: from.state, pieces: []piece{p}})
		return
	}
	s.rows += p.rows()
	from.rows, from.bytes = from.rows+p.rows(), from.bytes+p.bytes()
	g.careful = g.careful || o.careful
	s.meeting.landed(&p, time.Now())
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
	now := time.Now()
	s.meeting.look(s.states, now)
	defer func() { s.meeting.wait(s.states, s.busy > 0, now) }()
	if n := s.ready(now); n == 0 || s.busy > 0 && n < 2*s.batch {
		return nil
	}
	for i := range s.states {
		if s.states[i].aside > 0 {
			continue
		}
		if w := s.gather(i, now); len(w.pieces) > 0 {
			job = append(job, w)
		}
	}
	if job != nil {
		s.busy++
	}
	return job
}

// ready counts the rows that can be written now. The caller holds mu.
func (s *settlement) ready(now time.Time) (n int) {
	if s.meeting == nil {
		return s.rows
	}
	for i := range s.states {
		if s.states[i].aside > 0 {
			continue
		}
		for _, p := range s.states[i].pieces {
			marks, refusals := s.stays(&p, now)
			n += p.rows() - number(p.accepted, marks) - number(p.refused, refusals)
		}
	}
	return n
}

// stays returns which rows of a piece cannot be written now: those that the other settler has, and those whose marks wait. The caller holds mu.
func (s *settlement) stays(p *piece, now time.Time) (marks func(*row) bool, refusals func(refusal) bool) {
	waits := s.meeting.waits(p, now)
	return func(r *row) bool { return s.has(r) || waits && s.meeting.awaited(r) != 0 },
		func(x refusal) bool { return s.has(x.row) }
}

func number[T any](items []T, which func(T) bool) (n int) {
	for _, item := range items {
		if which(item) {
			n++
		}
	}
	return n
}

// gather takes what is to be written to a set of columns. The caller holds mu.
func (s *settlement) gather(state int, now time.Time) *order {
	g := &s.states[state]
	w := &order{outcome: outcome{table: g.table, careful: g.careful}, state: state}
	var left []piece
	for _, p := range g.pieces {
		goes, stays := p, piece{from: p.from, until: p.until}
		if s.meeting != nil {
			marks, refusals := s.stays(&p, now)
			goes.accepted, stays.accepted = apart(p.accepted, marks)
			goes.refused, stays.refused = apart(p.refused, refusals)
			s.meeting.missed(&goes)
		}
		if goes.rows() > 0 {
			w.add(goes)
		}
		if stays.rows() > 0 {
			left = append(left, stays)
		}
	}
	for _, p := range w.pieces {
		s.rows -= p.rows()
		p.from.rows, p.from.bytes = p.from.rows-p.rows(), p.from.bytes-p.bytes()
	}
	g.pieces, g.careful = left, g.careful && left != nil
	return w
}

// add adds a piece to what is written.
func (w *order) add(p piece) {
	w.accepted, w.refused = append(w.accepted, p.accepted...), append(w.refused, p.refused...)
	if i := slices.IndexFunc(w.pieces, func(other piece) bool { return other.from == p.from }); i >= 0 {
		there := &w.pieces[i]
		there.accepted, there.refused = append(there.accepted, p.accepted...), append(there.refused, p.refused...)
		return
	}
	w.pieces = append(w.pieces, p)
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
		p.from.result <- o
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
