package outbox

import (
	"context"
	"fmt"
)

// Together marks accepted rows in the columns of several views of a table, each row in all of them or in none, which
// costs the database little more than marking them in one. It reports whether it has marked all of them. The other rows
// had one of the marks already or could not be written; [Table.Settle] finds out which, for each destination. No view
// deletes its rows.
func Together(ctx context.Context, views []*Table, rows []*Row) (all bool, err error) {
	relayed, first := each(views, func(t *Table) string { return t.mapping.Relayed.Name }), views[0]
	marks := first.description.with("write", first.marking(views...), "unmarked", isNull(relayed...))
	left, err := first.mark(ctx, marks, rows)
	if err != nil {
		return false, fmt.Errorf("settle rows: %w", err)
	}
	return left <= 0, nil
}
