package owner

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Peers are the replicas that share an outbox, by their number of shards.
type Peers struct {
	Replicas map[int]int
	Owned    int // shards that anybody holds
}

// Look returns who shares an outbox at present, without taking part.
func Look(ctx context.Context, conn *pgx.Conn, table string) (Peers, error) {
	found, err := listLocks(ctx, conn, classOf(table))
	if err != nil {
		return Peers{}, err
	}
	const none = 0 // nobody has so many shards, so that all are others
	l := read(found, none)
	return Peers{Replicas: l.others, Owned: l.taken.Len()}, nil
}

// listLocks returns the locks of an outbox that any replica holds.
func listLocks(ctx context.Context, conn *pgx.Conn, class int32) ([]lockRow, error) {
	rows, err := conn.Query(ctx, sql.Text("owner_locks.sql", nil), pgx.QueryExecModeExec, class)
	if err != nil {
		return nil, fmt.Errorf("look at the locks: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (lockRow, error) {
		var object int64
		var l lockRow
		err := row.Scan(&object, &l.pid, &l.mine)
		l.object = uint32(object)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the locks: %w", err)
	}
	return found, nil
}
