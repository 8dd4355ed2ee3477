package dispatch

import "time"

// StatementTimeout limits one statement. A connection on which one takes longer counts as dead.
const StatementTimeout = 30 * time.Second

// An Outcome is what is to be written for some rows, and the result of writing it.
type Outcome struct {
	Accepted []*Row
	Refused  []Refusal
	Again    again // why the rows are tried again, if they are
	Careful  bool  // do not wait for rows that another session keeps locked

	Effects map[string]Effect // by the rows' identities; see [Effect]
	Why     error             // the database's last answer for an unwritable row
	Marked  int               // number of rows that were marked in the same statements
	Took    time.Duration     // time to write everything, including the commits
	Slow    int               // number of rows of a statement that took too long
	Err     error             // set if ctx ended before everything was written, or if nothing can be written to the table as it is now
}

// again is why rows are written again.
type again uint8

const (
	Fresh again = iota // they are tried for the first time
	AgainLocked
	againRejected
)

// An Effect is what a write did to a row. An accepted row without an effect is marked. A refused row without an effect
// has changed since it was read.
type Effect uint8

const (
	Written    Effect = iota + 1 // the refusal is written
	Unwritable                   // a constraint, a trigger or row security prevents the write
	Unfree                       // another session keeps the row locked, or a row that a trigger or a foreign key uses
)

// Number counts the rows, including those with an effect.
func (o *Outcome) Number() int { return len(o.Accepted) + len(o.Refused) }
