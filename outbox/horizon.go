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
	// Every transaction before Oldest had ended, none from Next on had begun, and those Running had not ended.
	Oldest, Next uint32
	Running      []uint32
}

// far is more transactions than begin while a table is walked. A number so far ahead is that of a transaction before the
// counter went round.
const far = 1 << 28

// Sees reports whether what the transaction with this number wrote was committed by then. Of a subtransaction of one that was
// running besides an older one, it may wrongly say so: the server does not list them.
func (h *Horizon) Sees(transaction uint32) bool {
	const firstNormal = 3
	ahead := func(of uint32) bool { return int32(transaction-of) >= 0 }
	switch {
	case transaction < firstNormal, !ahead(h.Oldest):
		return true
	case ahead(h.Next):
		return transaction-h.Next > far
	default:
		return !slices.Contains(h.Running, transaction)
	}
}

// readHorizon reads the answer of horizon.sql.
func readHorizon(result *pgconn.ResultReader) (*Horizon, error) {
	h := &Horizon{}
	var text string
	for result.NextRow() {
		values := result.Values()
		if values[0] != nil {
			highest := ordinal(values[0])
			h.Highest = &highest
		}
		text = string(values[1])
	}
	if _, err := result.Close(); err != nil {
		return nil, err
	}
	return h, h.parse(text)
}

// parse reads a snapshot as PostgreSQL writes it: 10:20:10,14,15.
func (h *Horizon) parse(text string) error {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return fmt.Errorf("the snapshot %q has another form than xmin:xmax:list", text)
	}
	var failed error
	number := func(s string) uint32 {
		n, err := strconv.ParseUint(s, 10, 64)
		failed = errors.Join(failed, err)
		return uint32(n) // rows have the lower half only
	}
	h.Oldest, h.Next = number(parts[0]), number(parts[1])
	for s := range strings.SplitSeq(parts[2], ",") {
		if s != "" {
			h.Running = append(h.Running, number(s))
		}
	}
	return failed
}
