package outbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// A Horizon is the end of what was visible at some time: in table order, and among transactions. Rows that were committed later
// lie beyond it, even if they come earlier in table order.
type Horizon struct {
	// Highest is the largest ordinal of the pending rows of all shards, nil if there were none.
	Highest *int64
	Snapshot
}

// A Snapshot says which transactions had ended at some time: all before Oldest, none from Next on, and in between all that are
// not Running. Transactions that had written nothing are not included, nor are the numbers of savepoints.
type Snapshot struct {
	Oldest, Next uint32
	Running      []uint32 // in ascending order

	// Unassigned is the number that was to be assigned next, a moment later. Next is the number after the last transaction that
	// had ended. Of the numbers in between, some may have belonged to running transactions.
	Unassigned uint32

	text string // in PostgreSQL's notation
}

const (
	// far is more transactions than begin while a table is scanned. A number so far ahead belongs to a transaction before the
	// counter wrapped around.
	far = 1 << 28

	firstNormal = 3 // smaller numbers have special meanings
)

// before reports whether number a was assigned before number b. Transaction numbers wrap around.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// Sees reports whether the writes of the transaction with this number were committed at the time of the snapshot. For the
// number of a savepoint in a running transaction the answer may wrongly be true: see [Snapshot.FirstEnded].
func (s *Snapshot) Sees(transaction uint32) bool {
	switch {
	case transaction < firstNormal, before(transaction, s.Oldest):
		return true
	case !before(transaction, s.Next):
		return transaction-s.Next > far
	default:
		return !slices.Contains(s.Running, transaction)
	}
}

// FirstEnded returns the first transaction that was running and has ended by the time of a later snapshot, or may have. Writes
// under a savepoint bear the savepoint's number, which is higher than the transaction's and not among the running ones. So of
// the rows that are visible at the later time, those with a number from this one on may have been committed since.
func (s *Snapshot) FirstEnded(later *Snapshot) (transaction uint32, ok bool) {
	for _, transaction := range s.Running {
		if later.Sees(transaction) {
			return transaction, true
		}
	}
	for n := s.Next; before(n, s.Unassigned) && before(n, later.Next); n++ {
		if n >= firstNormal && later.Sees(n) {
			return n, true
		}
	}
	return 0, false
}

// readHighest reads the result of horizon.sql.
func readHighest(result *pgconn.ResultReader) (highest *int64, err error) {
	for result.NextRow() {
		if value := result.Values()[0]; value != nil {
			n := ordinal(value)
			highest = &n
		}
	}
	_, err = result.Close()
	return highest, err
}

// parse reads a snapshot in PostgreSQL's notation, 10:20:10,14,15, and, if known, the distance from the first number to the
// next one to be assigned.
func (s *Snapshot) parse(texts ...string) error {
	s.text = texts[0]
	parts := strings.Split(s.text, ":")
	if len(parts) != 3 {
		return fmt.Errorf("the snapshot %q has another form than xmin:xmax:list", texts[0])
	}
	var failed error
	number := func(text string) uint32 {
		n, err := strconv.ParseUint(text, 10, 64)
		failed = errors.Join(failed, err)
		return uint32(n) // rows hold the lower half only
	}
	s.Oldest, s.Next = number(parts[0]), number(parts[1])
	for text := range strings.SplitSeq(parts[2], ",") {
		if text != "" {
			s.Running = append(s.Running, number(text))
		}
	}
	s.Unassigned = s.Next
	if len(texts) > 1 {
		age, err := strconv.ParseInt(texts[1], 10, 32)
		failed = errors.Join(failed, err)
		s.Unassigned = firstNormal + uint32(age)
	}
	return failed
}
