package outbox

import (
	"context"
	"fmt"
	"strconv"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Size is the space that the table takes, with all its partitions.
type Size struct {
	Bytes    int64 // on disk, with indexes and TOAST
	DeadRows int64 // not yet removed by vacuum, according to the server's statistics
}

// Size measures the table. The time grows with the number of partitions.
func (t *Table) Size(ctx context.Context) (Size, error) {
	oid, err := strconv.ParseInt(t.relation.oid, 10, 64)
	if err != nil {
		return Size{}, fmt.Errorf("oid of the table: %w", err)
	}
	rows, err := t.query(ctx, limits{}, sql.Text("size.sql", nil), number(oid))
	if err != nil {
		return Size{}, fmt.Errorf("measure the table's size: %w", err)
	}
	return Size{Bytes: ordinal(rows[0][0]), DeadRows: ordinal(rows[0][1])}, nil
}
