package outbox

import (
	"context"
	"maps"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// A Joint marks rows for several destinations at once, which costs the database little more than marking them for one.
type Joint struct {
	table          *Table
	here, anywhere string
}

// Together returns what marks rows in the columns of several views of a table, nil where a view deletes them.
func Together(views []*Table) *Joint {
	var marks, columns []string
	for _, t := range views {
		if t.names == nil {
			return nil
		}
		marks, columns = append(marks, t.names["marks"]), append(columns, t.names["relayed_at"])
	}
	j, names := &Joint{table: views[0]}, maps.Clone(views[0].names)
	names["marks"], names["unmarked"] = strings.Join(marks, ", "), isNull(columns...)
	if j.table.settleHere != "" {
		j.here = sql.Text("mark_here.sql", names)
	}
	j.anywhere = sql.Text("mark.sql", names)
	return j
}

// Settle marks acknowledged rows, each for all of the destinations or for none. It reports whether it has marked all of them: of the others
// one of the marks was there, or they could not be written, which [Table.Settle] tells for each destination.
func (j *Joint) Settle(ctx context.Context, rows []*Row) (all bool, err error) {
	left, err := j.table.mark(ctx, rows, array(j.table.rowOID, identitiesOf(rows)), j.here, j.anywhere)
	return err == nil && left <= 0, err
}
