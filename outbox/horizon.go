package outbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// A Horizon is the end of what could be seen at some time: in table order, and among transactions. Rows that
// were committed later lie beyond it, also when they stand in front.
type Horizon struct {
	// Highest is the largest ordinal of the pending rows, of all shards, nil when there was none.
	Highest *int64
	Snapshot
}

// A Snapshot says which transactions had ended at some time: all before Oldest, none from Next on, and of those in between
// all that are not Running. Transactions that had written nothing are not told of.
type Snapshot struct {
	Oldest, Next uint32
	Running      []uint32
}

// far is more transactions than begin while a table is walked. A number so far ahead is that of a transaction before the
// counter went round.
const far = 1 << 28

// Sees reports whether what the transaction with this number wrote was committed by then. Of a subtransaction of one that was
// running besides an older one, it may wrongly say so: the server does not list them.
func (s *Snapshot) Sees(transaction uint32) bool {
	const firstNormal = 3
	ahead := func(of uint32) bool { return int32(transaction-of) >= 0 }
	switch {
	case transaction < firstNormal, !ahead(s.Oldest):
		return true
	case ahead(s.Next):
		return transaction-s.Next > far
	default:
		return !slices.Contains(s.Running, transaction)
	}
}

// readHighest reads the answer of horizon.sql.
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

// parse reads a snapshot as PostgreSQL writes it: 10:20:10,14,15.
func (s *Snapshot) parse(text string) error {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return fmt.Errorf("the snapshot %q has another form than xmin:xmax:list", text)
	}
	var failed error
	number := func(text string) uint32 {
		n, err := strconv.ParseUint(text, 10, 64)
		failed = errors.Join(failed, err)
		return uint32(n) // rows have the lower half only
	}
	s.Oldest, s.Next = number(parts[0]), number(parts[1])
	for text := range strings.SplitSeq(parts[2], ",") {
		if text != "" {
			s.Running = append(s.Running, number(text))
		}
	}
	return failed
}
