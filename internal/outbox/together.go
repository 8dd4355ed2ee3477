package outbox

import (
	"context"
	"fmt"
	"slices"
)

// A Joint marks rows for several destinations at once. This costs the database little more than marking them for one.
type Joint struct {
	table *Table
	marks description
}

// Together returns a Joint that marks rows in the columns of several views of a table, or nil if a view deletes its
// rows.
func Together(views []*Table) *Joint {
	if slices.ContainsFunc(views, func(t *Table) bool { return t.mapping.delete }) {
		return nil
	}
	relayed := each(views, func(t *Table) string { return t.mapping.Relayed.Name })
	first := views[0]
	return &Joint{first, first.description.with("write", first.marking(views...), "unmarked", isNull(relayed...))}
}

// Settle marks accepted rows, each for all of the destinations or for none. It reports whether it has marked all of
// them. The other rows had one of the marks already or could not be written; [Table.Settle] finds out which, for each
// destination.
func (j *Joint) Settle(ctx context.Context, rows []*Row) (all bool, err error) {
	left, err := j.table.mark(ctx, j.marks, rows)
	if err != nil {
		return false, fmt.Errorf("settle rows: %w", err)
	}
	return left <= 0, nil
}
