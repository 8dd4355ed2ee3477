package relay

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// simTransactions assigns numbers to transactions as PostgreSQL does. Numbers of savepoints come from the same counter and
// are not listed in snapshots.
type simTransactions struct {
	assigned  uint32 // the last number
	completed uint32 // the highest number that has ended
	running   []uint32
	present   uint32            // the transaction that adds rows
	saved     map[uint32]uint32 // the last number of each running transaction's savepoints
}

func newSimTransactions() *simTransactions { return newSimTransactionsFrom(10) }

// newSimTransactionsFrom makes the counter begin at n.
func newSimTransactionsFrom(n uint32) *simTransactions {
	return &simTransactions{assigned: n, completed: n, saved: map[uint32]uint32{}}
}

// following returns the number after n. The counter wraps around and leaves out the numbers with a special meaning.
func following(n uint32) uint32 { return max(n+1, 3) }

func (t *simTransactions) assign() uint32 {
	t.assigned = following(t.assigned)
	return t.assigned
}

func (t *simTransactions) start() uint32 {
	t.running = append(t.running, t.assign())
	return t.assigned
}

// savepoint assigns a number to what a running transaction writes under a savepoint.
func (t *simTransactions) savepoint(transaction uint32) uint32 {
	t.saved[transaction] = t.assign()
	return t.assigned
}

// rollback rolls back what was written under a savepoint.
func (t *simTransactions) rollback(savepoint uint32) { t.complete(savepoint) }

func (t *simTransactions) complete(n uint32) {
	if began(t.completed, n) {
		t.completed = n
	}
}

func (t *simTransactions) end(transaction uint32) {
	t.running = slices.DeleteFunc(t.running, func(running uint32) bool { return running == transaction })
	t.complete(transaction)
	if last, ok := t.saved[transaction]; ok {
		t.complete(last)
		delete(t.saved, transaction)
	}
}

// snapshot reports which transactions have ended now.
func (t *simTransactions) snapshot() outbox.Snapshot {
	s := outbox.Snapshot{Next: following(t.completed), Unassigned: following(t.assigned)}
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

// began reports whether one transaction began before another. Their numbers wrap around.
func began(a, b uint32) bool { return int32(a-b) < 0 }
