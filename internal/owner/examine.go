package owner

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// A Replica is one of the replicas that share a group, as its locks show it.
type Replica struct {
	Backend    int32 // process id of its control connection at the server
	Owned      Set   // shards that it holds
	membership       // 0 if it shows none
	mine       bool  // it is the replica that has looked
}

// Like reports whether a replica with this number of shards and this mapping would share the group with r.
func (r Replica) Like(shards int, mapping string) bool {
	return r.like(membershipOf(shards, mapping, true))
}

// lookAt returns the replicas that hold locks of some classes, by class.
func lookAt(ctx context.Context, conn *pgx.Conn, classes []int32) (map[int32][]Replica, error) {
	all := map[int32][]Replica{}
	var class, object int64
	var found Replica
	// The rows hold the error of the query, too.
	rows, _ := conn.Query(ctx, sql.Text("owner_locks.sql", nil), pgx.QueryExecModeExec, classes)
	_, err := pgx.ForEachRow(rows, []any{&class, &object, &found.Backend, &found.mine}, func() error {
		of := all[int32(uint32(class))]
		i := slices.IndexFunc(of, func(r Replica) bool { return r.Backend == found.Backend })
		if i < 0 {
			i, of = len(of), append(of, found)
			all[int32(uint32(class))] = of
		}
		// Memberships have negative numbers, which the server shows as unsigned.
		if n := int(int32(uint32(object))); n < 0 {
			of[i].membership = membership(-n)
		} else if n < MaxShards {
			of[i].Owned.Add(n)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the locks: %w", err)
	}
	return all, nil
}

// Replicas returns the replicas that share each group at present, without taking part. The groups are named by their
// columns, as in [Group]. The connection may go through a pooler.
func Replicas(ctx context.Context, conn *pgx.Conn, table string, columns ...string) ([][]Replica, error) {
	classes := make([]int32, len(columns))
	for i, column := range columns {
		classes[i] = classOf(table, column)
	}
	found, err := lookAt(ctx, conn, classes)
	if err != nil {
		return nil, err
	}
	all := make([][]Replica, len(columns))
	for i, class := range classes {
		all[i] = slices.DeleteFunc(found[class], func(r Replica) bool { return r.membership == 0 })
		slices.SortFunc(all[i], mostFirst)
	}
	return all, nil
}

// CleaningLock returns the advisory lock of the replica that deletes old rows of a table. It is in the table's class,
// and is neither a shard's nor a membership's.
func CleaningLock(table string) (class, object int32) { return classOf(table, ""), 1<<31 - 2 }
