package outbox

import (
	"context"
	"fmt"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Size is the space that the table takes, with all its partitions.
type Size struct {
	Bytes    int64 // on disk, with indexes and TOAST
	DeadRows int64 // not yet removed by vacuum, according to the server's statistics
}

// Size measures the table. The time grows with the number of partitions.
func (t *Table) Size(ctx context.Context) (Size, error) {
	rows, err := t.query(ctx, limits{}, sql.Text("size.sql", nil), number(int64(t.relation.OID)))
	if err != nil {
		return Size{}, fmt.Errorf("measure the table's size: %w", err)
	}
	return Size{ordinal(rows[0][0]), ordinal(rows[0][1])}, nil
}

// Unconfirmed reports whether commits of this role wait for a synchronous standby.
func (t *Table) Unconfirmed(ctx context.Context) (bool, error) {
	rows, err := t.query(ctx, limits{}, sql.Text("unconfirmed.sql", nil))
	if err != nil {
		return false, fmt.Errorf("look at the relay's sessions: %w", err)
	}
	return rows[0][0][0] != 0, nil
}
