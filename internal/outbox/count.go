package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Counts are the table-level gauges. A nil field was not measured: either no index makes it cheap, or too many rows of other
// destinations are in the way ([Table.For]).
type Counts struct {
	Pending, Scheduled, Failed *int64   // rows that are due, rows that are due later, and rows that failed; capped at CountCap
	Oldest                     *float64 // seconds for which the first pending row has been due; 0 if there is none
}

// CountCap is where counting stops.
const CountCap = 10_001

// Count measures the gauges in one round trip. Values that were measured before an error are returned with it.
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
	measure(&counts.Scheduled, t.countScheduled, number(CountCap)) // last: it takes long if few rows of many are scheduled
	if t.countPending != "" && t.mapping.available == nil {
		counts.Scheduled = new(int64)
	}
	if len(values) == 0 {
		return counts, nil
	}
	results, err := t.send(ctx, b)
	for i, result := range results {
		value, none := new(int64), len(result.Rows) == 0
		switch {
		case !none && result.Rows[0][0] != nil:
			*value = int64(binary.BigEndian.Uint64(result.Rows[0][0]))
		case values[i] != &oldest, none && counts.Pending == nil:
			continue // there are more rows than were examined
		}
		*values[i] = value
	}
	if oldest != nil {
		seconds := max(0, float64(*oldest)/1e6) // the clock of whoever inserted the row may be ahead
		counts.Oldest = &seconds
	}
	if err != nil {
		return counts, fmt.Errorf("measure: %w", err)
	}
	return counts, nil
}

// gauges renders the statements that measure the table.
func (t *Table) gauges(d description) {
	m := t.mapping
	if m.pendingIndex && m.filtered { // otherwise the index holds any number of rows that the destination never takes
		t.countPending = d.text("count_pending.sql")
		if m.available != nil {
			t.countScheduled = d.text("count_scheduled.sql")
		}
		if m.since() != nil {
			t.oldestPending = d.with("due_at", dueAt(m)).text("oldest_pending.sql")
		}
	}
	if m.failed != nil && m.failedIndex {
		t.countFailed = t.failedGauge(d, d["failed"], "")
	}
}

// failedGauge renders the statement that counts the failed rows in a state that a condition takes. Discarded rows that were
// kept no longer count as failed; only a bounded number of them is examined.
func (t *Table) failedGauge(d description, state, taken string) string {
	if t.mapping.relayed == nil && taken == "" {
		return d.text("count_failed.sql")
	}
	if c := t.mapping.relayed; c != nil {
		taken += " and " + sql.Quote(c.name) + " is null"
	}
	return d.with("state", state, "taken", strings.TrimPrefix(taken, " and "), "looked", strconv.Itoa(lookedAt)).text("count_taken.sql")
}

// lookedAt is how many rows the gauge of one destination examines, including rows that other destinations take.
const lookedAt = 10 * CountCap

// gaugesTaken renders the statements that measure the rows of one destination. The condition for the destination's rows is
// removed from the condition for their state, because it does not bound a read of an index.
func (t *Table) gaugesTaken(d description, filtered string) {
	m, own := t.mapping, d.with("taken", strings.TrimPrefix(filtered, " and "), "looked", strconv.Itoa(lookedAt))
	count := func(state string) string {
		return own.with("state", strings.TrimSuffix(d[state], filtered)).text("count_taken.sql")
	}
	if m.pendingIndex {
		t.countPending = count("due")
		if m.available != nil {
			t.countScheduled = count("scheduled")
		}
		if m.since() != nil {
			t.oldestPending = own.with("due", strings.TrimSuffix(d["due"], filtered), "due_at", dueAt(m)).text("oldest_taken.sql")
		}
	}
	if m.failed != nil && m.failedIndex {
		t.countFailed = t.failedGauge(d, strings.TrimSuffix(d["failed"], filtered), filtered)
	}
}
