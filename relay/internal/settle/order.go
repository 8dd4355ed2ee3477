package settle

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// order is an outcome that is being written, for the rows of one or several engines.
//
// Its goroutine owns it once it has begun. Only released is guarded by mu, since the timer sets it, too. It has rows of
// one set of columns, or the same rows of several.
type order struct {
	engine.Outcome
	states   []int                     // numbers of the sets of columns; several for marks in all of them at once
	shares   map[*Writer][]*engine.Row // of each engine, which gets back its own
	waits    int                       // statements that met a lock through a trigger or a foreign key
	released bool                      // it is overdue, or written
}

// asideAfter is how long other orders wait for one that is under way. What cannot be written, because of a missing
// privilege or a trigger, is tried until it can be written, which may take forever. When there were two settlers that
// took one order after another, both were busy with what one destination's columns did not take, and no destination's
// rows were marked.
const asideAfter = 2 * time.Second

// add adds a row to the order.
func (o *order) add(g gathered) {
	if o.shares == nil {
		o.shares = map[*Writer][]*engine.Row{}
	}
	o.shares[g.from] = append(o.shares[g.from], g.Row)
	if o.Careful = o.Careful || g.careful; !slices.Contains(o.states, g.from.state) {
		o.states = append(o.states, g.from.state)
	}
	if g.from.state == o.states[0] { // the other sets of columns have the same rows
		o.Rows = append(o.Rows, g.Row)
	}
}

// joint reports whether the order marks the same rows in several sets of columns.
func (o *order) joint() bool { return len(o.states) > 1 }

// table is what the order is written to.
func (s *Settlement) table(o *order) Table {
	if !o.joint() {
		return s.states[o.states[0]].table
	}
	var views []Table
	for _, state := range o.states {
		views = append(views, s.states[state].table)
	}
	return s.join(views)
}

// begin begins to write an order, unless it is empty. The caller holds mu. From here until release, no other order
// takes its rows.
func (s *Settlement) begin(o *order) {
	if len(o.Rows) == 0 {
		return
	}
	for _, r := range o.Rows {
		s.taken[r.ID()] = struct{}{}
	}
	s.active++
	s.count(o, 1)
	s.group.Go(func() { s.run(o) })
}

// count adds n to the number of orders that are under way, for each of the sets of columns that the order writes. The
// caller holds mu.
func (s *Settlement) count(o *order, n int) {
	for _, i := range o.states {
		if c := &s.states[i]; o.Again {
			c.retrying = n > 0
		} else {
			c.busy += n
		}
	}
}

// run writes an order and answers its engines. If marks for several destinations could not all be made at once, nothing
// is answered: the rows go back to what is gathered, and are marked for each destination by itself. A mark that some of
// them already have does no harm, since a marked row is left as it is. Marking apart is always right, so any doubt
// leads there, and costs a statement more.
func (s *Settlement) run(o *order) {
	overdue := time.AfterFunc(asideAfter, func() { s.release(o) })
	started := time.Now()
	o.Err = s.write(s.ctx, o)
	took := time.Since(started)
	overdue.Stop()
	divided := o.joint() && (o.Err != nil || len(o.Unwritten) > 0)
	if !divided {
		o.deliver()
	}
	s.mu.Lock()
	s.count(o, -1)
	if o.joint() && took >= longJoin {
		s.apart = time.Now().Add(apartShare * took)
	}
	if divided {
		for from, rows := range o.shares {
			c := &s.states[from.state]
			for _, r := range rows {
				c.gathered = append(c.gathered, gathered{r, from, true})
			}
		}
	}
	s.mu.Unlock()
	s.release(o)
}

// release makes the other orders go on without this one, which is written, or does not end: what cannot be written at
// one destination must not keep the others waiting. Their marks may meet the locks of its rows for the duration of a
// statement. It is called by the timer of an overdue order, by the order itself before it waits for another try, and at
// its end.
func (s *Settlement) release(o *order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !o.released {
		o.released = true
		s.active--
		for _, r := range o.Rows {
			delete(s.taken, r.ID())
		}
	}
	s.dispatch()
}

// has reports whether a row is in an order, for any destination. Two statements that write the same row for two
// destinations would wait for each other's locks, and in opposite orders end in a deadlock. The caller holds mu.
func (s *Settlement) has(r *engine.Row) bool {
	_, has := s.taken[r.ID()]
	return has
}

// deliver sends each engine its share of what was written. All of them read the same reasons. It blocks until the loops
// take them.
func (o *order) deliver() {
	for from, rows := range o.shares {
		result := o.Outcome
		result.Rows = rows
		from.result <- result
	}
}

// stage records how long a statement took, for each destination whose rows it wrote.
func (o *order) stage(took time.Duration) {
	for from := range o.shares {
		from.measure.Stage(measure.StageSettle, took)
	}
}
