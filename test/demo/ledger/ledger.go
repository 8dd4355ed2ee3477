// Package ledger keeps what an application committed and what a consumer received, and compares the two.
package ledger

import (
	"sync"
	"time"
)

// A Row is an outbox row as the application wrote it.
type Row struct {
	ID      string
	Seq     int64 // the table's order
	Key     string
	Payload string // as PostgreSQL prints it
	Large   bool   // a broker with a limit refuses it
}

// An Arrival is a message as a consumer received it.
type Arrival struct {
	ID, Key, Payload string
	Why              string // it is a dead letter, which says so
	At               time.Time
}

// A Ledger is safe for concurrent use.
type Ledger struct {
	// These are set before the ledger is used.
	Wants   func(Row) bool // which rows are to arrive; nil for all
	Keyless bool           // messages come without their key
	Dead    bool           // messages are dead letters, which say why

	mu       sync.Mutex
	rows     map[string]*entry // by id
	arrivals []Arrival         // as they came
	waits    []wait            // of first arrivals, as they came
	counts   Counts
}

// Counts are the ledger's totals. Transactions are those of the application.
type Counts struct {
	Commits, Committed    int // transactions, rows
	Rollbacks, RolledBack int // transactions, rows
	Arrived               int // messages, each time that one came
	Outstanding           int // committed rows that have not arrived
}

type entry struct {
	Row
	outcome  outcome
	sent     time.Time // when COMMIT was sent
	arrivals int
}

type outcome uint8

const (
	open outcome = iota // nobody knows yet
	committed
	rolledBack
)

// New returns an empty ledger.
func New() *Ledger { return &Ledger{rows: map[string]*entry{}} }

// Committing notes the rows of a transaction whose COMMIT is about to be sent: a row can arrive before
// the application hears that it is committed.
func (l *Ledger) Committing(rows []Row) {
	l.note(rows, open)
}

// Committed notes that PostgreSQL has committed the rows given to Committing before.
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

// RolledBack notes the rows of a transaction that was rolled back.
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

// Arrived notes a message. Those of one key are given in the order in which they came.
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

// Counts returns the totals now.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}
