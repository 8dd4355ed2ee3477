package operate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A Change is an operator's change to rows. [Retry], [Discard], [Replay] and [Prune] make them.
type Change struct {
	Verb string // the name of the change, for display: "retry"
	Done string // the participle of the name: "retried"
	// Rest is the length of the pause after a transaction, as a multiple of the transaction's duration.
	Rest int
	// Deletes says that rows are deleted that every other destination has done, and others are kept. All rows are kept
	// while the table has the state of others ([Outbox.Strangers]).
	Deletes bool

	in state // in which rows are changed; its error says why the table does not support the change
	// assign returns the assignments to a row that is not deleted, and their parameters from $3 on.
	assign func(*outbox.Table) (assignments []string, values []any)
	plan   string // what would become of a chosen row that is not deleted: "keep"
	kept   string // what has become of such a row: "kept"
	gently bool   // the order of a key among the rows is kept; rows that no relay would publish are left alone
	prune  *pruning
	most   int // number of rows that are chosen at most; 0 for all
	// patience limits how long the server looks for rows that are to be chosen; 0 for an hour.
	patience time.Duration
}

// still is the condition that a row has not changed since it was chosen, at $2.
func (c Change) still(o *Outbox, n *outbox.Table) string {
	if c.prune != nil {
		return c.prune.done(o, c.prune.cutoff("$2::timestamptz"))
	}
	state, since, _ := c.in(n) // without an error for tables with chosen rows
	return state + " and " + since.Name + " <= " + since.At("$2::timestamptz + interval '1 second'")
}

// Retry returns the change that lets failed rows be tried again, with all their attempts. It also empties the columns
// of their dead letters: a relay that does not know these columns does not empty them when a row fails again.
func Retry() Change {
	return Change{
		Verb: "retry", Done: "retried", plan: "retry", kept: "retried", in: failed,
		assign: func(n *outbox.Table) ([]string, []any) {
			return slices.Concat([]string{n.Failed.Name + " = null"}, n.Unsent(), fresh(n)), nil
		},
	}
}

// Discard returns the change that gives up failed rows for good. A row that every other destination has done is
// deleted, unless keep is set: the row is then kept with failed_at and relayed_at set, and its last error ends with the
// reason. A table without relayed_at keeps no such rows. No row is deleted while the table has the state of
// destinations that are not configured.
func Discard(keep bool, reason string) Change {
	reason = cmp.Or(reason, "no reason given")
	return Change{
		Verb: "discard", Done: "discarded", Deletes: !keep, plan: "keep", kept: "kept",
		in: func(n *outbox.Table) (string, outbox.Column, error) {
			state, since, err := failed(n)
			if keep && err == nil && !n.Relayed.Has() {
				err = fmt.Errorf("table %s has no column relayed_at, so it cannot show that a row was discarded; "+
					"leave out --keep to delete the row", n.Quoted())
			}
			return state, since, err
		},
		assign: func(n *outbox.Table) (assignments []string, values []any) {
			assignments = []string{n.Relayed.Name + " = " + n.Relayed.Now()}
			if n.LastError.Has() {
				assignments = append(assignments, n.LastError.Name+" = "+withReason(n.LastError))
				values = append(values, n.Clean("[discarded: "+reason+"]"))
			}
			return assignments, values
		},
	}
}

// Replay returns the change that publishes relayed rows again.
func Replay() Change {
	return Change{
		Verb: "replay", Done: "replayed", plan: "replay", kept: "replayed", gently: true,
		in:     relayed,
		assign: func(n *outbox.Table) ([]string, []any) { return append(fresh(n), n.Relayed.Name+" = null"), nil },
	}
}

// failed is the state of rows that have failed and were not discarded; see [Change].
func failed(n *outbox.Table) (state string, since outbox.Column, err error) {
	if !n.Failed.Has() {
		err = fmt.Errorf("table %s has no column failed_at, so no row of it fails", n.Quoted())
	}
	return n.IsFailed, n.Failed, err
}

// relayed is the state of rows that were relayed, and not discarded.
func relayed(n *outbox.Table) (state string, since outbox.Column, err error) {
	if !n.Relayed.Has() {
		return "", n.Relayed, fmt.Errorf("table %s keeps no rows that were relayed", n.Quoted())
	}
	state = n.Relayed.Name + " is not null"
	if n.Failed.Has() { // otherwise the row was discarded
		state += " and " + n.Failed.Name + " is null"
	}
	return state, n.Relayed, nil
}

// fresh returns the assignments that give a row all its attempts again. To the relays the row looks as if it had been
// inserted now: a tail scan in progress leaves it, and the other rows of its key, to the next tail scan.
func fresh(n *outbox.Table) (assignments []string) {
	if n.LastError.Has() {
		assignments = append(assignments, n.LastError.Name+" = null")
	}
	if n.Attempt.Has() {
		assignments = append(assignments, n.Attempt.Name+" = default")
	}
	if n.Txid.Writable {
		assignments = append(assignments, n.Txid.Name+" = pg_current_xact_id()")
	}
	return assignments
}

// withReason is the last error followed by $3. If the column is too narrow for both, the error is cut.
func withReason(c outbox.Column) string {
	width := cmp.Or(c.Width, math.MaxInt32)
	return fmt.Sprintf("left(concat_ws(' ', nullif(left(%s, greatest(%d - length($3::text), 0)), ''), $3::text), %d)",
		c.Name, width-1, width)
}

// doneElsewhere is the condition that every destination with other columns than those of a set is done with a row: it
// was relayed or discarded there. Of destinations that are not configured here that is not known.
func (o *Outbox) doneElsewhere(but set) string {
	if o.Strangers() != nil {
		return "false"
	}
	all := "true"
	for _, n := range o.Views {
		if n.Relayed.Name != but.table.Relayed.Name {
			all += " and " + done(n, n.Relayed.Name+" is not null")
		}
	}
	return all
}

// done is the condition that a row has ended at a destination, or that the destination does not take it.
func done(n *outbox.Table, ended string) string {
	if takesAll(n) {
		return "(" + ended + ")"
	}
	return fmt.Sprintf("(%s or not coalesce(%s, false))", ended, takes(n))
}

// takes is the condition that a destination takes a row, and that the row has reached the state in which it does.
func takes(n *outbox.Table) string {
	return pattern.And(cmp.Or(n.Came, pattern.Always), "("+n.Taken+")")
}

// takesAll reports whether a destination takes each row, as it is inserted.
func takesAll(n *outbox.Table) bool { return n.Came == "" && n.Taken == pattern.Always }
