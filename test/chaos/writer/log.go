package writer

import (
	"slices"
	"sync"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

// log records what the writers did.
type log struct {
	mu           sync.Mutex
	rows         []history.Row
	transactions int
}

// begin returns the number of a new transaction.
func (l *log) begin() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transactions++
	return l.transactions
}

// end records the outcome of the rows of a transaction.
func (l *log) end(rows []history.Row, outcome history.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		r.Outcome = outcome
		l.rows = append(l.rows, r)
	}
}

// resolved returns the rows. If the database did not report the outcome of a row, the transaction's trace in the
// database decides.
func (l *log) resolved(traces map[int]bool) []history.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := slices.Clone(l.rows)
	for i := range rows {
		if rows[i].Outcome == history.Unknown {
			rows[i].Outcome = history.RolledBack
			if traces[rows[i].Transaction] {
				rows[i].Outcome = history.Committed
			}
		}
	}
	return rows
}
