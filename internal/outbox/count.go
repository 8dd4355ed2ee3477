package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Counts are the table-level gauges. A nil field was not measured, because no index makes it cheap, or because so many rows of other
// destinations are in the way ([Table.For]) that it would not be.
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
			continue // there are more rows than were looked at
		}
		*values[i] = value
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

// gauges makes the statements that measure the table.
func (t *Table) gauges(names map[string]string) {
	m := t.mapping
	if m.pendingIndex && m.filtered { // else it holds any number of rows that the destination never takes
		t.countPending = sql.Text("count_pending.sql", names)
		if m.available != nil {
			t.countScheduled = sql.Text("count_scheduled.sql", names)
		}
		if m.since() != nil {
			names["due_at"] = dueAt(m)
			t.oldestPending = sql.Text("oldest_pending.sql", names)
		}
	}
	if m.failed != nil && m.failedIndex {
		t.countFailed = t.failedGauge(names, names["failed"], "")
	}
}

// failedGauge makes the statement that counts failed rows in a state, of those that a condition takes. Rows that were discarded and kept
// have failed, and count no more; only a bounded number of them is looked at.
func (t *Table) failedGauge(names map[string]string, state, taken string) string {
	if t.mapping.relayed == nil && taken == "" {
		return sql.Text("count_failed.sql", names)
	}
	own := maps.Clone(names)
	if c := t.mapping.relayed; c != nil {
		taken += " and " + sql.Quote(c.name) + " is null"
	}
	own["state"], own["taken"], own["looked"] = state, strings.TrimPrefix(taken, " and "), strconv.Itoa(lookedAt)
	return sql.Text("count_taken.sql", own)
}

// lookedAt is how many rows a gauge of one destination looks at, whoever takes them.
const lookedAt = 10 * CountCap

// gaugesTaken makes the statements that measure the rows of one destination. Its condition is taken from that on the state of the rows: it
// bounds no walk through an index.
func (t *Table) gaugesTaken(names map[string]string, filtered string) {
	m, own := t.mapping, maps.Clone(names)
	own["taken"], own["looked"] = strings.TrimPrefix(filtered, " and "), strconv.Itoa(lookedAt)
	count := func(state string) string {
		own["state"] = strings.TrimSuffix(names[state], filtered)
		return sql.Text("count_taken.sql", own)
	}
	if m.pendingIndex {
		t.countPending = count("due")
		if m.available != nil {
			t.countScheduled = count("scheduled")
		}
		if m.since() != nil {
			own["due"], own["due_at"] = strings.TrimSuffix(names["due"], filtered), dueAt(m)
			t.oldestPending = sql.Text("oldest_taken.sql", own)
		}
	}
	if m.failed != nil && m.failedIndex {
		t.countFailed = t.failedGauge(names, strings.TrimSuffix(names["failed"], filtered), filtered)
	}
}
