// Package ledger records what an application committed and what a consumer received, and compares the two.
package ledger

import (
	"sync"
	"time"
)

// A Row is an outbox row as the application wrote it.
type Row struct {
	ID      string
	Seq     int64 // value of the table's order column
	Key     string
	Payload string // as PostgreSQL prints it
	Large   bool   // too large for a broker with a limit
}

// An Arrival is a message as a consumer received it.
type Arrival struct {
	ID, Key, Payload string
	Why              string // reason of a dead letter, "" for other messages
	At               time.Time
}

// A Ledger is safe for concurrent use.
type Ledger struct {
	// Wants, Keyless and Dead are set before the ledger is used.
	Wants   func(Row) bool // reports whether a row must arrive; nil for all rows
	Keyless bool           // messages arrive without their key
	Dead    bool           // messages are dead letters, which contain a reason

	mu       sync.Mutex
	rows     map[string]*entry // by id
	arrivals []Arrival         // in the order of arrival
	waits    []wait            // waits of first arrivals, in the order of arrival
	counts   Counts
}

// Counts are the ledger's totals. Transactions are the application's.
type Counts struct {
	Commits, Committed    int // transactions, rows
	Rollbacks, RolledBack int // transactions, rows
	Arrived               int // messages, counting each arrival
	Outstanding           int // committed rows that have not arrived
}

type entry struct {
	Row
	outcome  outcome
	sent     time.Time // time of sending COMMIT
	arrivals int
}

type outcome uint8

const (
	open outcome = iota // not known yet
	committed
	rolledBack
)

// New returns an empty ledger.
func New() *Ledger { return &Ledger{rows: map[string]*entry{}} }

// Committing records the rows of a transaction whose COMMIT is about to be sent: a row can arrive before the
// application learns that it is committed.
func (l *Ledger) Committing(rows []Row) {
	l.note(rows, open)
}

// Committed records that PostgreSQL has committed the rows that were given to Committing.
func (l *Ledger) Committed(rows []Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Commits++
	for _, row := range rows {
		e := l.rows[row.ID]
		e.outcome = committed
		if !l.wants(row) {
			continue
		}
		l.counts.Committed++
		if e.arrivals == 0 {
			l.counts.Outstanding++
		}
	}
}

// RolledBack records the rows of a transaction that was rolled back.
func (l *Ledger) RolledBack(rows []Row) {
	l.note(rows, rolledBack)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Rollbacks++
	l.counts.RolledBack += len(rows)
}

func (l *Ledger) note(rows []Row, as outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, row := range rows {
		l.rows[row.ID] = &entry{Row: row, outcome: as, sent: now}
	}
}

// Arrived records a message. Messages of one key must be given in the order in which they arrived.
func (l *Ledger) Arrived(a Arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals = append(l.arrivals, a)
	l.counts.Arrived++
	e := l.rows[a.ID]
	if e == nil {
		return
	}
	e.arrivals++
	if e.arrivals > 1 {
		return
	}
	l.waits = append(l.waits, wait{at: a.At, took: a.At.Sub(e.sent)})
	if e.outcome == committed && l.wants(e.Row) {
		l.counts.Outstanding--
	}
}

func (l *Ledger) wants(row Row) bool { return l.Wants == nil || l.Wants(row) }

// Counts returns the present totals.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}
