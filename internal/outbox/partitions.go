package outbox

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Each statement opens every partition that it might have to look at, with all of its indexes. With a year of days that
// takes twenty times as long as the statement itself. So the statements of a table that is partitioned by time name a
// range of its partitions: from the first to the last of those that hold pending rows and of those of the present
// hours, where new rows go.
//
// Rows that are inserted outside that range are found at the next look at the catalogue ([Table.Current]), which then
// reports that the table has changed: everything is read from the beginning again, with their partition.

const (
	// manyPartitions is the number of partitions from which statements name some of them.
	manyPartitions = 8

	// rangePatience is how long [Open] looks for pending rows in each partition, which takes long without an index.
	rangePatience = 5 * time.Second
)

// partitioned is what the catalogue says about the partitions of a table.
type partitioned struct {
	Number int
	Column string   // the column by whose ranges they are made, if it holds times
	Type   string   // its type
	Bounds []string // the times at which partitions begin or end, in any order
}

// partitions are what statements name of the partitions of a table by time. All views of the table share them.
type partitions struct {
	mu     sync.Mutex
	ranges map[string]timeRange // by the condition of pending rows; all partitions for one that is missing
}

// A timeRange is what the statements of a view name: the lower bound inclusive, the upper one exclusive.
type timeRange struct{ low, high string }

// everything is the range of all partitions.
var everything = timeRange{"-infinity", "infinity"}

// partitionMark stands in the statements where the condition on partitions goes.
const partitionMark = "/*partitions*/ "

// partitionMark is what stands in statements for the condition on partitions.
func (r *relation) partitionMark() string {
	if r.parts == nil {
		return ""
	}
	return partitionMark
}

// partitionCondition returns the condition on partitions for the statements of a view, followed by and.
func (t *Table) partitionCondition() (condition string) {
	p, column := t.relation.parts, sql.Quote(t.relation.Partitions.Column)
	pending := t.mapping.Pending
	p.mu.Lock()
	named, known := p.ranges[pending]
	p.mu.Unlock()
	if known && named.low != everything.low {
		condition = column + " >= " + sql.Literal(named.low) + " and "
	}
	if known && named.high != everything.high {
		condition += column + " < " + sql.Literal(named.high) + " and "
	}
	return condition
}

// followPartitions finds the ranges that the statements of all views have to name, now that the partitions are those of
// found. It reports whether rows are pending outside of the range that statements have named so far.
func (t *Table) followPartitions(ctx context.Context, found *relation) (grown bool, err error) {
	p := t.relation.parts
	if p == nil || found.parts == nil {
		return (p == nil) != (found.parts == nil), nil
	}
	p.mu.Lock()
	ranges := maps.Clone(p.ranges)
	p.mu.Unlock()
	for _, m := range t.mappings() {
		pending := m.Pending
		before, known := ranges[pending]
		if !known {
			before = everything
		}
		now, outside, err := t.pendingRange(ctx, pending, &found.Partitions, before)
		if err != nil {
			return false, err
		}
		ranges[pending], grown = now, grown || outside
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranges = ranges
	return grown, nil
}

// pendingRange finds the range that statements have to name, and whether rows are pending outside of another one.
func (t *Table) pendingRange(
	ctx context.Context, pending string, p *partitioned, before timeRange,
) (now timeRange, outside bool, err error) {
	statement := sql.Text("pending_range.sql", description{
		"table": t.Quoted(), "pending": pending, "part_key": sql.Quote(p.Column), "part_type": p.Type,
	})
	rows, err := t.query(ctx, limits{inOrder: true}, statement,
		array(pgtype.TextOID, p.Bounds), []byte(before.low), []byte(before.high))
	if err != nil {
		return now, false, fmt.Errorf("look for partitions with pending rows: %w", err)
	}
	return timeRange{string(rows[0][0]), string(rows[0][1])}, rows[0][2][0] != 0, nil
}
