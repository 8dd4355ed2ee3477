package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
)

// Counts are the table-level gauges. A nil field was not measured, because no index makes it cheap.
type Counts struct {
	Pending, Failed *int64   // capped at CountCap
	Oldest          *float64 // age of the first pending row in seconds; 0 without one
}

// CountCap is where counting stops.
const CountCap = 10_001

// Count measures the gauges.
func (t *Table) Count(ctx context.Context) (Counts, error) {
	var counts Counts
	measure := func(statement string, parameters ...[]byte) (*int64, error) {
		if statement == "" {
			return nil, nil
		}
		rows, err := t.query(ctx, limits{inOrder: true}, statement, parameters...)
		if err != nil {
			return nil, fmt.Errorf("measure: %w", err)
		}
		value := new(int64)
		if len(rows) > 0 && rows[0][0] != nil {
			*value = int64(binary.BigEndian.Uint64(rows[0][0]))
		}
		return value, nil
	}
	var err error
	if counts.Pending, err = measure(t.countPending, number(CountCap)); err != nil {
		return counts, err
	}
	if counts.Failed, err = measure(t.countFailed, number(CountCap)); err != nil {
		return counts, err
	}
	oldest, err := measure(t.oldestPending)
	if oldest != nil {
		seconds := float64(*oldest) / 1e6
		counts.Oldest = &seconds
	}
	return counts, err
}
