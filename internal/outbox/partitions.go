package outbox

import (
	"context"
	"fmt"
	"strings"
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

// A timeRange is what the statements of all views name: the lower bound inclusive, the upper one exclusive.
type timeRange struct{ low, high string }

// everything is the range of all partitions.
var everything = timeRange{"-infinity", "infinity"}

// partitionMark stands in the statements where the condition on partitions goes, if there is one.
const partitionMark = "/*partitions*/ "

// partitionCondition returns the condition on partitions for statements, followed by and.
func (t *Table) partitionCondition() (condition string) {
	column, named := sql.Quote(t.relation.Partitions.Column), t.relation.parts.Load()
	if named.low != everything.low {
		condition = column + " >= " + sql.Literal(named.low) + " and "
	}
	if named.high != everything.high {
		condition += column + " < " + sql.Literal(named.high) + " and "
	}
	return condition
}

// followPartitions finds the range that the statements of all views have to name, now that the partitions are those of
// found. It reports whether rows are pending outside of the range that statements have named so far.
func (t *Table) followPartitions(ctx context.Context, found *relation) (grown bool, err error) {
	p := t.relation.parts
	if p == nil || found.parts == nil {
		return (p == nil) != (found.parts == nil), nil
	}
	d := description{
		"table": t.Quoted(), "part_key": sql.Quote(found.Partitions.Column), "part_type": found.Partitions.Type,
	}
	within := func(pending string) string { return d.text("pending_within.sql", "pending", pending) }
	pending := []string{within(t.Pending)}
	for _, v := range t.config.views() {
		if m := t.see(v); len(m.problems) == 0 {
			pending = append(pending, within(m.Pending))
		}
	}
	last := p.Load()
	rows, err := t.query(ctx, limits{inOrder: true},
		d.text("pending_range.sql", "pending", strings.Join(pending, " or ")),
		array(pgtype.TextOID, found.Partitions.Bounds), []byte(last.low), []byte(last.high))
	if err != nil {
		return false, fmt.Errorf("look for partitions with pending rows: %w", err)
	}
	values := rows[0]
	p.Store(&timeRange{string(values[0]), string(values[1])})
	return values[2][0] != 0, nil
}
