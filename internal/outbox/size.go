package outbox

import (
	"context"
	"fmt"
	"strconv"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Size is what the table takes, with all its partitions.
type Size struct {
	Bytes    int64 // on disk, with indexes and what is stored out of line
	DeadRows int64 // that vacuum has not removed, as far as the server's statistics know
}

// Size measures the table. It takes the longer the more partitions there are.
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
