// Package settle writes to the table what became of rows: it marks the rows that were accepted, many in a statement,
// and writes refusals. It keeps trying until that is done. The destinations of a process share it.
//
// # The way of an outcome
//
//	Write ─▶ rows, gathered ─▶ order ─▶ statements ─▶ result of each writer
//	              ▲              │         │
//	              │              │         └─ too slow, or rows in the way: divided and written again
//	              └──────────────┘
//	               not marked in all sets of columns at once: each by itself
//
// What lies there when the last order ends becomes one order, so that the statements are as large as the load makes
// them: one row when idle, thousands under load. An order ends when its rows
// are written, when it is known which of them cannot be, or that none can as the table is now, or with the context.
//
// Marking is the dearest step of the relay: 8 to 12 µs of PostgreSQL's processor time for each row, where a publish to
// Kafka takes 2 to 3 in client and broker together. That is why all of this gathers rows.
//
// # What always holds
//
//   - A row that several destinations have is in one order at a time, until its order ends or is overdue. The mark of a
//     row and its refusal are never written side by side (invariant 1 of package internal).
//   - Each row of an outcome comes back to its engine once, with what became of it or with the error that ended the
//     writing. Until then the engine keeps it in flight, so that no read brings it as new.
//   - Everything that is written may be written again: a mark or a refusal that is there already stays as it is. So an
//     order whose answer was lost is simply repeated (invariant 4).
//   - An order that does not end delays the others for two seconds at most.
//
// # The files
//
//   - settlement.go: what the engines see, and which order begins when.
//   - order.go: an order from its rows to its results.
//   - joint.go: marks for several destinations in one statement.
//   - write.go: the statements of an order, their size, and the rows that keep others from being written.
package settle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// Table is what a settlement needs of an outbox table; see [outbox.Table]. Each method may be repeated: what is written
// already stays as it is. Settle waits half a second for locked rows, and then writes nothing. Refuse waits for no row,
// and Settle does not where free is true.
type Table interface {
	Settle(ctx context.Context, rows []*outbox.Row, free bool) (unwritten map[string]error, err error)
	Refuse(context.Context, []outbox.Refusal) (unwritten map[string]error, err error)
}

// Settlement gathers what became of the rows of all destinations and writes it in orders, each in a goroutine of its
// own. What several destinations have to write to the same columns goes into the same statements. No row is in two
// orders at a time, since destinations that keep its state in columns of their own would wait for each other's locks.
//
// While an order is under way, what comes is gathered, and the next one begins when it has ended. One at a time was
// busy for 94 % of the time while processors were free, so a second one begins when there are twice as many rows as a
// batch has: small statements cost more for each row.
//
// Three kinds of goroutines meet here: the loops call Write, each order runs in its own, and a timer lets others pass
// an order that takes long. What they share is guarded by mu, and no statement is made while it is held.
type Settlement struct {
	batch int                        // rows in a publish; see dispatch
	limit time.Duration              // time limit of one statement
	join  Join                       // nil where no two destinations have the same row
	wrote func(state int, err error) // called after each statement

	mu     sync.Mutex
	ctx    context.Context //nolint:containedctx // of all that is written; nil before Start
	states []columns
	taken  map[string]struct{} // ids of the rows that are being written
	active int                 // orders under way that are not overdue: others gather while there is one
	apart  time.Time           // end of a period without marks for several destinations at once
	group  sync.WaitGroup      // waits for the orders
}

// columns are a set of columns in which the state of rows is kept. Destinations that share one have different rows.
type columns struct {
	table    Table
	gathered []gathered // to be written
	again    []*order   // what could not be written before, each by itself
	busy     int        // orders under way, without the one that retries
	retrying bool       // an order is under way that could not be written before
	most     int        // number of rows that a statement may write in its time; 0 for any number. See pace
}

// gathered is a row that waits to be written.
type gathered struct {
	*engine.Row
	from    *Writer
	careful bool // see [engine.Outcome]; set as well for a row that could not be marked together with others
}

// New makes a settlement, which writes nothing before [Settlement.Start]. Each of the tables keeps the state of rows in
// other columns. batch is how many rows a publish has. wrote is called after each statement with the number of the
// table, and an error if the database does not answer as it should. Several goroutines call it.
func New(batch int, tables []Table, join Join, wrote func(state int, err error)) *Settlement {
	s := &Settlement{
		batch: batch, limit: engine.StatementTimeout, join: join, wrote: wrote, taken: map[string]struct{}{},
	}
	for _, table := range tables {
		s.states = append(s.states, columns{table: table})
	}
	return s
}

// Writer is an engine's access to the settlement.
type Writer struct {
	*Settlement
	state   int // the set of columns that it writes to
	measure *measure.Destination
	result  chan<- engine.Outcome
}

// NewWriter makes the writer of an engine to a set of columns, by the number of its table. The results are sent to the
// channel, and its user takes them until each row has come back: an order blocks until its results are taken.
func (s *Settlement) NewWriter(state int, to *measure.Destination, result chan<- engine.Outcome) *Writer {
	return &Writer{Settlement: s, state: state, measure: to, result: result}
}

// Write makes an engine's outcome be written, and does not block for it. The result comes in one or several outcomes;
// in one if it is tried again. The rows are the settlement's to read until then. It may be called before Start, and
// gathers then.
func (w *Writer) Write(o engine.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, alone := &w.states[w.state], &order{}
	for _, r := range o.Rows {
		if one := (gathered{r, w, o.Careful}); o.Again {
			alone.add(one)
		} else {
			c.gathered = append(c.gathered, one)
		}
	}
	if alone.Again = o.Again; o.Again {
		c.again = append(c.again, alone)
	}
	w.dispatch()
}

// Start makes the settlement write. After ctx has ended it writes nothing more, and its results carry the error. ctx
// must outlive the relaying: what is on the wire at a stop is answered and written.
func (s *Settlement) Start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
	s.dispatch()
}

// Close waits until everything is written, after no engine has anything more to write. Its user goes on taking results
// meanwhile, or the orders would wait for that.
func (s *Settlement) Close() { s.group.Wait() }

// dispatch begins to write what can be written now. The caller holds mu. It is called whenever something has changed:
// an outcome has come, an order has ended or is overdue, or writing has begun.
func (s *Settlement) dispatch() {
	if s.ctx == nil {
		return
	}
	var ready []int
	rows := 0
	for i := range s.states {
		c := &s.states[i]
		// A second order begins beside one that is under way only if it has as many rows as two batches. With two
		// marking connections instead of one, PostgreSQL alone took 111,000 rows a second instead of 78,000.
		if n := s.again(i); n > 0 && (c.busy == 0 || c.busy == 1 && !c.retrying && n >= 2*s.batch) {
			ready = append(ready, i)
			rows += n
		}
	}
	// Another order is under way, so what has come gathers until it ends, unless there is enough for two.
	if s.active > 0 && rows < 2*s.batch {
		return
	}
	if s.join != nil && len(ready) > 1 && !time.Now().Before(s.apart) {
		s.jointly(ready)
	}
	for _, i := range ready {
		o := &order{}
		s.takeOut(o, i, func(gathered) bool { return true })
		s.begin(o)
	}
}

// again begins to write what could not be written to a set of columns before: by itself, one outcome at a time. It
// returns how many other rows can be written there now. Rows that the database has rejected before would have their
// whole order halved again, so they never share one with rows that are new. The caller holds mu.
func (s *Settlement) again(state int) (others int) {
	c := &s.states[state]
	free := func(o *order) bool { return !slices.ContainsFunc(o.Rows, s.has) }
	if i := slices.IndexFunc(c.again, free); i >= 0 && !c.retrying && c.busy < 2 {
		o := c.again[i]
		c.again = slices.Delete(c.again, i, i+1)
		s.begin(o)
	}
	for _, g := range c.gathered {
		if !s.has(g.Row) {
			others++
		}
	}
	return others
}

// takeOut moves to an order what is to be written to a set of columns and takes accepts. The rest stays gathered. The
// caller holds mu.
func (s *Settlement) takeOut(o *order, state int, takes func(gathered) bool) {
	c := &s.states[state]
	c.gathered = slices.DeleteFunc(c.gathered, func(g gathered) bool {
		goes := !s.has(g.Row) && takes(g)
		if goes {
			o.add(g)
		}
		return goes
	})
}
