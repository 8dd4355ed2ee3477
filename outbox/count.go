package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
)

// Counts are the table-level gauges. A nil field was not measured, because no index makes it cheap.
type Counts struct {
	Pending, Scheduled, Failed *int64   // rows that are due, those due later, and those that failed; capped at CountCap
	Oldest                     *float64 // for how many seconds the first pending row has been due; 0 without one
}

// CountCap is where counting stops.
const CountCap = 10_001

// Count measures the gauges, with one round trip. What was measured before an error is returned with it.
func (t *Table) Count(ctx context.Context) (Counts, error) {
	var counts Counts
	var oldest *int64 // in microseconds
	b := batch{limits: limits{inOrder: true}}
	var values []**int64
	measure := func(value **int64, statement string, parameters ...[]byte) {
		if statement != "" {
			b.add(statement, parameters...)
			values = append(values, value)
		}
	}
	measure(&counts.Pending, t.countPending, number(CountCap))
	measure(&counts.Failed, t.countFailed, number(CountCap))
	measure(&oldest, t.oldestPending)
	measure(&counts.Scheduled, t.countScheduled, number(CountCap)) // last: where few of many are, it takes long
	if t.countPending != "" && !t.Delays() {
		counts.Scheduled = new(int64)
	}
	if len(values) == 0 {
		return counts, nil
	}
	results, err := t.send(ctx, b)
	for i, result := range results {
		*values[i] = new(int64)
		if len(result.Rows) > 0 && result.Rows[0][0] != nil {
			**values[i] = int64(binary.BigEndian.Uint64(result.Rows[0][0]))
		}
	}
	if oldest != nil {
		seconds := float64(*oldest) / 1e6
		counts.Oldest = &seconds
	}
	if err != nil {
		return counts, fmt.Errorf("measure: %w", err)
	}
	return counts, nil
}
