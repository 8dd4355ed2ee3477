package relay

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// database records whether the database last answered, separately for reads and for writes. A role that may read but
// not write must not seem healthy after each read.
type database struct {
	silent func() // gives up all connections of the pool; nil in simulations
	mu     sync.Mutex
	// The last errors, by what they are of: reading for reads, the number n of a set of columns for writes to it, and
	// ^n for rehearsals of such writes. What succeeded last has no entry.
	errs map[int]error
}

// The places of errors that are of no set of columns.
const (
	reading    = math.MinInt // of the last read
	confirming = reading + 1 // of commits, which the server does not confirm
)

// unwritten reports whether the last write to a set of columns has failed. Rows are then published only after the
// database has shown that it would mark them: what cannot be marked would be published again after a restart.
func (d *database) unwritten(state int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.errs[state] != nil
}

// read records the result of a read.
func (d *database) read(err error) { d.wrote(reading, err) }

// rehearsed records whether the database would take writes to a set of columns. That says nothing about a write that is
// tried again.
func (d *database) rehearsed(state int, err error) { d.wrote(^state, err) }

// wrote records the result of a write to a set of columns. A successful write to another set says nothing about this
// one.
func (d *database) wrote(state int, err error) {
	// Each statement has a limit at the server that ends a little before the relay's own. A connection that has not
	// answered within that is lost, and others that have been idle for as long are probably lost, too. Nothing may have
	// been sent: the pool asks a connection that was idle first.
	_, connects := errors.AsType[*pgconn.ConnectError](err)
	if errors.Is(err, context.DeadlineExceeded) && !connects && d.silent != nil {
		d.silent()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.errs, state); err != nil && !outbox.Transient(err) {
		if d.errs == nil {
			d.errs = map[int]error{}
		}
		d.errs[state] = err
	}
}

// state returns why the database cannot be used, or nil if it can be used or nothing is known.
func (d *database) state() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, state := range slices.Sorted(maps.Keys(d.errs)) { // reads come first
		return d.errs[state]
	}
	return nil
}

// stopped forgets the last results because reads and writes have stopped: the trouble may be over, and the next ones
// will show whether it is.
func (d *database) stopped() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.errs)
}
