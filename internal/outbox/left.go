package outbox

import (
	"context"
	"fmt"
)

// An End is the end of the table at some time: the last order value and, if rows with available_at have an index of
// their own, the time up to which they are due. The zero End is noted when it is first used.
type End struct{ values [][]byte }

// Left counts the pending rows that are due up to end, at most [CountCap].
func (t *Table) Left(ctx context.Context, end *End) (int64, error) {
	l := limits{inOrder: t.mapping.followed && !t.Ranked()}
	if end.values == nil {
		rows, err := t.query(ctx, l, t.description.text("drain_end.sql"))
		if err != nil {
			return 0, fmt.Errorf("find the last pending row: %w", err)
		}
		end.values = rows[0]
	}
	rows, err := t.query(ctx, l, t.description.text("drain_left.sql"),
		append([][]byte{number(CountCap)}, end.values...)...)
	if err != nil {
		return 0, fmt.Errorf("count the rows that are left: %w", err)
	}
	return ordinal(rows[0][0]), nil
}
