package relay

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// simTransactions assigns numbers to transactions as PostgreSQL does. Numbers of savepoints come from the same counter
// and are not listed in snapshots.
type simTransactions struct {
	assigned  uint64 // the last number
	completed uint64 // the highest number that has ended
	running   []uint64
	present   uint64            // the transaction that adds rows
	saved     map[uint64]uint64 // the last number of each running transaction's savepoints
}

func newSimTransactions() *simTransactions { return newSimTransactionsFrom(10) }

// newSimTransactionsFrom makes the counter begin at n.
func newSimTransactionsFrom(n uint64) *simTransactions {
	return &simTransactions{assigned: n, completed: n, saved: map[uint64]uint64{}}
}

func following(n uint64) uint64 { return n + 1 }

func (t *simTransactions) assign() uint64 {
	t.assigned = following(t.assigned)
	return t.assigned
}

func (t *simTransactions) start() uint64 {
	t.running = append(t.running, t.assign())
	return t.assigned
}

// savepoint assigns a number to what a running transaction writes under a savepoint.
func (t *simTransactions) savepoint(transaction uint64) uint64 {
	t.saved[transaction] = t.assign()
	return t.assigned
}

// rollback rolls back what was written under a savepoint.
func (t *simTransactions) rollback(savepoint uint64) { t.complete(savepoint) }

func (t *simTransactions) complete(n uint64) {
	if began(t.completed, n) {
		t.completed = n
	}
}

func (t *simTransactions) end(transaction uint64) {
	t.running = slices.DeleteFunc(t.running, func(running uint64) bool { return running == transaction })
	t.complete(transaction)
	if last, ok := t.saved[transaction]; ok {
		t.complete(last)
		delete(t.saved, transaction)
	}
}

// snapshot reports which transactions have ended now.
func (t *simTransactions) snapshot() outbox.Visible {
	s := outbox.Visible{Next: following(t.completed), Unassigned: following(t.assigned)}
	s.Oldest = s.Next
	for _, running := range t.running {
		if began(running, s.Next) {
			s.Running = append(s.Running, running)
		}
	}
	if len(s.Running) > 0 {
		s.Oldest = s.Running[0]
	}
	return s
}

// began reports whether one transaction began before another.
func began(a, b uint64) bool { return a < b }
