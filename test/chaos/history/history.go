// Package history holds what happened in one run, as its witnesses wrote it down, and judges it. It knows no
// database, no broker and no clock: the same history always has the same verdict.
package history

import "time"

// A History is everything that is known of a run after it has healed.
type History struct {
	Rows       []Row      // every row that a writer inserted, whatever became of it
	Deliveries []Delivery // what the broker holds, each stream in its order
	Table      []Final    // the outbox after the run
	Faults     []Fault
	Held       []Held // transactions that a relay kept open
	Exits      []Exit // replicas that ended and were not told to

	Deletes     bool          // rows are deleted once they are relayed
	MaxInFlight int           // rows that one replica may have in flight
	Grace       time.Duration // how far from an unclean fault a row may have been delivered that it brings again
}

// Outcome says what became of a transaction.
type Outcome uint8

const (
	// Unknown: the connection died at the commit. A complete history has none.
	Unknown Outcome = iota
	// Committed: the database said so, or the transaction's trace was found in it later.
	Committed
	// RolledBack: by the writer, or by the database.
	RolledBack
)

// A Row is what a writer inserted.
type Row struct {
	ID          string
	Transaction int
	Topic       string
	Key         string // "" for a row without a key, which has no order
	Number      int    // counts the committed rows of the key from 1, in table order
	Outcome     Outcome
	Bad         string // why no broker ever takes it; "" for all others
}

// A Delivery is a message in the broker.
type Delivery struct {
	Stream string // what has an order of its own: a partition, a stream, a queue
	Offset int64  // the place in it
	At     time.Time
	Exact  bool // At is the broker's time of arrival; else the message came at most a moment before it
	ID     string
	Topic  string
	Key    string
	Body   Body
}

// A Body is the payload of every row.
type Body struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
}

// Final is a row of the table at the end.
type Final struct {
	ID              string
	Relayed, Failed bool
	Attempt         int
	Error           string
}

// Pending reports whether the relay still had to do something.
func (f Final) Pending() bool { return !f.Relayed && !f.Failed }

// A Fault is something that was done to the system.
type Fault struct {
	Name     string
	Began    time.Time
	Ended    time.Time
	Replicas int // whose rows in flight may come again because of it; 0 for a clean one
}

// Held is a transaction of a relay that was open while the relay ran no statement in it, or longer than
// the statement that it ran.
type Held struct {
	Session string
	For     time.Duration
	Query   string // the last one
}

// An Exit is the end of a process that nobody had asked for, or that was not as asked.
type Exit struct{ Replica, How string }
