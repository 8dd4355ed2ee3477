// Package settle writes to the table what became of rows: it marks the rows that were accepted, many in a statement,
// and writes refusals. It keeps trying until that is done. The destinations of a process share it.
package settle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// settlers is the number of settlers. While one statement waits for the disk, the other uses the processor. A single
// settler was busy for 94 % of the time while processors were free.
const settlers = 2

// Table is what the settlers need of an outbox table.
type Table interface {
	Settle(context.Context, []*outbox.Row) error
	SettleFree(context.Context, []*outbox.Row) (locked []string, err error)
	Refuse(context.Context, []outbox.Refusal) (written, locked []string, err error)
}

// Settlement gathers what became of the rows of all destinations and hands it to the settlers of the process. What
// several destinations have to write to the same columns goes into the same statements. No row is ever with both
// settlers, since destinations that keep its state in columns of their own would wait for each other's locks. Orders
// that take long or cannot be written step aside ([Settlement.aside]).
type Settlement struct {
	batch int                        // the second settler begins at twice as many rows: small statements cost more per row
	join  Join                       // nil where no two destinations have the same row
	wrote func(state int, err error) // called after each statement

	mu       sync.Mutex
	changed  *sync.Cond
	states   []gathered
	taken    map[string]struct{} // ids of the rows that settlers have; nil where only one destination has each row
	apart    time.Time           // end of a period without marks for several destinations at once
	busy     int                 // settlers at work, without the one that retries and those that have stepped aside
	again    []*order            // orders that could not be written before; each is tried separately, one at a time
	retrying bool
	closed   bool
	group    sync.WaitGroup // waits for the settlers
}

// gathered is what is to be written to one set of columns.
type gathered struct {
	table   Table // never changes, so that settlers use it without mu
	pieces  []piece
	careful bool
	aside   int // settlers that have stepped aside with an order; nothing more is taken meanwhile
}

// New makes a settlement. Each of the tables keeps the state of rows in other columns.
func New(batch int, tables []Table, join Join, wrote func(state int, err error)) *Settlement {
	s := &Settlement{batch: batch, join: join, wrote: wrote}
	s.changed = sync.NewCond(&s.mu)
	for _, table := range tables {
		s.states = append(s.states, gathered{table: table})
	}
	if len(tables) > 1 {
		s.taken = map[string]struct{}{}
	}
	return s
}

// next returns what a settler writes next, or nil if there will be nothing more. It blocks until then.
func (s *Settlement) next() []*order {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if job := s.take(); job != nil || s.closed {
			return job
		}
		s.changed.Wait()
	}
}

// take returns what is to be written now, if anything, and notes that a settler has it. The caller holds mu.
func (s *Settlement) take() []*order {
	job := s.choose()
	for _, w := range job {
		s.note(w)
	}
	return job
}

// choose removes and returns what is to be written now. The caller holds mu.
func (s *Settlement) choose() (job []*order) {
	if !s.retrying {
		may := func(w *order) bool { return s.states[w.state].aside == 0 && !s.meets(w) }
		if i := slices.IndexFunc(s.again, may); i >= 0 {
			job, s.retrying = []*order{s.again[i]}, true
			s.again = slices.Delete(s.again, i, i+1)
			return job
		}
	}
	if n := s.ready(); n == 0 || s.busy > 0 && n < 2*s.batch {
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

// has reports whether a settler has the row, for any destination. The caller holds mu.
func (s *Settlement) has(r *engine.Row) bool {
	_, has := s.taken[r.ID()]
	return has
}

// meets reports whether a settler has any of the rows. The caller holds mu.
func (s *Settlement) meets(w *order) bool {
	return len(s.taken) > 0 && (slices.ContainsFunc(w.Accepted, s.has) ||
		slices.ContainsFunc(w.Refused, func(x engine.Refusal) bool { return s.has(x.Row) }))
}

// note notes that a settler has the rows. The caller holds mu.
func (s *Settlement) note(w *order) {
	if s.taken == nil {
		return
	}
	for r := range w.all {
		s.taken[r.ID()] = struct{}{}
	}
}

// done notes that a settler has written what it was given.
func (s *Settlement) done(job []*order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job[0].Again {
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
func (s *Settlement) release(w *order) {
	for r := range w.all {
		delete(s.taken, r.ID())
	}
}

// Start runs the settlers until ctx ends or the settlement is closed.
func (s *Settlement) Start(ctx context.Context) {
	for range settlers {
		s.group.Go(func() { s.settler().run(ctx) })
	}
}

func (s *Settlement) settler() *settler {
	return &settler{Settlement: s, limit: engine.StatementTimeout}
}

// Close ends the settlers, after no engine has anything more to write, and waits for them.
func (s *Settlement) Close() {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.group.Wait()
}
