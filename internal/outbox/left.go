package outbox

import (
	"context"
	"fmt"
)

// An End is the end of the table at some time: the last order value and, if rows with available_at have an index of
// their own, the time up to which they are due. The zero End is noted when it is first used.
type End struct {
	noted  bool
	values [][]byte // nil if no row was due
}

// Left counts the pending rows that are due up to end, at most [CountCap].
func (t *Table) Left(ctx context.Context, end *End) (int64, error) {
	l := limits{inOrder: t.mapping.inOrder}
	if !end.noted {
		rows, err := t.query(ctx, l, t.description.text("drain_end"+t.delays()+".sql"))
		if err != nil {
			return 0, fmt.Errorf("find the last pending row: %w", err)
		}
		if end.noted = true; len(rows) > 0 {
			end.values = rows[0]
		}
	}
	if end.values == nil {
		return 0, nil
	}
	rows, err := t.query(ctx, l, t.description.text("drain_left"+t.delays()+".sql"),
		append([][]byte{number(CountCap)}, end.values...)...)
	if err != nil {
		return 0, fmt.Errorf("count the rows that are left: %w", err)
	}
	return ordinal(rows[0][0]), nil
}

// delays ends the name of a statement that has two forms. Where there is an index of due times, it has one condition
// for rows without available_at, named "due", and another one for the other rows. With a single condition for both, the
// planner could not use the two indexes.
func (t *Table) delays() string {
	if t.mapping.dueIndex {
		return "_due"
	}
	return ""
}
