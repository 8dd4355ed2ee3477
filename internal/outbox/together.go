package outbox

import (
	"context"
	"strings"
)

// A Joint marks rows for several destinations at once. This costs the database little more than marking them for one.
type Joint struct {
	table          *Table
	here, anywhere string
}

// Together returns a Joint that marks rows in the columns of several views of a table, or nil if a view deletes its
// rows.
func Together(views []*Table) *Joint {
	var marks, columns []string
	for _, t := range views {
		if t.mapping.delete {
			return nil
		}
		marks, columns = append(marks, t.description["marks"]), append(columns, t.description["relayed_at"])
	}
	d := views[0].description.with("marks", strings.Join(marks, ", "), "unmarked", isNull(columns...))
	j := &Joint{table: views[0], anywhere: d.text("mark.sql")}
	if j.table.mapping.place != noPlace {
		j.here = d.text("mark_here.sql")
	}
	return j
}

// Settle marks accepted rows, each for all of the destinations or for none. It reports whether it has marked all of
// them. The other rows had one of the marks already or could not be written; [Table.Settle] finds out which, for each
// destination.
func (j *Joint) Settle(ctx context.Context, rows []*Row) (all bool, err error) {
	left, err := j.table.mark(ctx, rows, j.here, j.anywhere)
	return err == nil && left <= 0, err
}
