// Package history holds the records of one run, as its witnesses wrote them, and judges them. It uses no database,
// broker or clock: the same history always has the same verdict.
package history

import "time"

// A History is everything that is known about one destination after a run has healed.
type History struct {
	Rows       []Row      // every row that a writer inserted, whatever happened to it
	Deliveries []Delivery // messages that the broker holds, each stream in its order
	Table      []Final    // the outbox after the run
	Faults     []Fault
	Held       []Held // transactions that a relay kept open
	Exits      []Exit // replicas that ended without being asked to

	MayBeEmpty  bool          // reports that it is not a sign of trouble if nothing was delivered
	Deletes     bool          // reports that rows are deleted once they are relayed
	MaxInFlight int           // rows that one replica may have in flight
	Grace       time.Duration // longest time between an unclean fault and the first delivery of a row that it repeats
}

// Outcome is the outcome of a transaction.
type Outcome uint8

const (
	// Unknown: the connection ended during the commit. A complete history contains no unknown outcome.
	Unknown Outcome = iota
	// Committed: the database confirmed the commit, or the transaction's trace was found in it later.
	Committed
	// RolledBack: by the writer, or by the database.
	RolledBack
	// Elsewhere: committed, and not for this destination.
	Elsewhere
	// Withdrawn: a failure that was committed and later cleared by an operator, perhaps before its dead letter was
	// sent.
	Withdrawn
)

// A Row is what a writer inserted.
type Row struct {
	ID          string
	Transaction int
	Topic       string
	Key         string // "" for a row without a key, which has no order
	Number      int    // position among the committed rows of the key, from 1, in table order
	Outcome     Outcome
	Bad         string // reason why no broker ever takes it; "" for all others
}

// A Delivery is a message in the broker.
type Delivery struct {
	Stream string // unit that has an order of its own: a partition, a stream, a queue
	Offset int64  // place in the stream
	At     time.Time
	Exact  bool // At is the broker's time of arrival; otherwise the message arrived at most a moment before it
	ID     string
	Topic  string
	Key    string
	Body   Body
	// Failure is the header of a dead letter with the time at which the row failed; "" for all other deliveries.
	Failure string
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
	FailedAt        string // in the form of a Failure; "" for a row that has not failed
}

// Pending reports whether the relay still had to process the row.
func (f Final) Pending() bool { return !f.Relayed && !f.Failed }

// A Fault is something that was done to the system.
type Fault struct {
	Name     string
	Began    time.Time
	Ended    time.Time
	Replicas int // number of replicas whose rows in flight may be delivered again because of it; 0 for a clean fault
	// Destination is the only destination whose rows may be delivered again; "" for all.
	Destination string
}

// Held is a transaction that a relay kept open without running a statement in it, or for longer than the statement that
// it ran.
type Held struct {
	Session string
	For     time.Duration
	Query   string // the last one
}

// An Exit is an end of a process that was not requested, or that differs from what was requested.
type Exit struct{ Replica, How string }
