package owner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// listLocks returns the locks of some classes that any replica holds.
func listLocks(ctx context.Context, conn *pgx.Conn, classes []int32) ([]lockRow, error) {
	rows, err := conn.Query(ctx, sql.Text("owner_locks.sql", nil), pgx.QueryExecModeExec, classes)
	if err != nil {
		return nil, fmt.Errorf("look at the locks: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (lockRow, error) {
		var class, object int64
		var l lockRow
		err := row.Scan(&class, &object, &l.pid, &l.mine)
		l.class, l.object = int32(uint32(class)), uint32(object)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the locks: %w", err)
	}
	return found, nil
}

// A Replica is one of the replicas that share a group, as its locks show it.
type Replica struct {
	Backend int32 // process id of its control connection at the server
	Owned   Set   // shards that it holds
	Of      int   // number of shards into which it divides the rows
	Able    bool  // the replica says that it can publish
	kind    kind
	member  bool // it shows a membership; otherwise Of, Able and kind mean nothing
	mine    bool // it is the replica that has looked
}

// Like reports whether a replica with this number of shards and this mapping would share the group with r.
func (r Replica) Like(shards int, mapping string) bool { return r.kind == kindOf(shards, mapping) }

// replicasOf returns the replicas that hold locks of a group.
func replicasOf(rows []lockRow, class int32) (all []Replica) {
	for _, row := range rows {
		if row.class != class {
			continue
		}
		i := slices.IndexFunc(all, func(r Replica) bool { return r.Backend == row.pid })
		if i < 0 {
			i, all = len(all), append(all, Replica{Backend: row.pid, mine: row.mine})
		}
		if m, member := row.member(); member {
			all[i].member, all[i].Of, all[i].Able, all[i].kind = true, m.shards, m.able, m.kind
		} else if row.object < MaxShards {
			all[i].Owned.Add(int(row.object))
		}
	}
	return all
}

// Replicas returns the replicas that share each group at present, without taking part. The groups are named by their
// columns, as in [Group]. The connection may go through a pooler.
func Replicas(ctx context.Context, conn *pgx.Conn, table string, columns ...string) ([][]Replica, error) {
	classes := make([]int32, len(columns))
	for i, column := range columns {
		classes[i] = classOf(table, column)
	}
	found, err := listLocks(ctx, conn, classes)
	if err != nil {
		return nil, err
	}
	all := make([][]Replica, len(columns))
	for i, class := range classes {
		all[i] = slices.DeleteFunc(replicasOf(found, class), func(r Replica) bool { return !r.member })
		slices.SortFunc(all[i], func(a, b Replica) int {
			return cmp.Or(cmp.Compare(b.Owned.Len(), a.Owned.Len()), cmp.Compare(a.Backend, b.Backend))
		})
	}
	return all, nil
}

// CleaningLock returns the advisory lock of the replica that deletes old rows of a table. It is in the table's class,
// and is neither a shard's nor a membership's.
func CleaningLock(table string) (class, object int32) { return classOf(table, ""), 1<<31 - 2 }
