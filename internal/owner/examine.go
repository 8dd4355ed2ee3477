package owner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Peers are the replicas that share an outbox.
type Peers struct {
	Replicas  map[int]int // count of replicas by their number of shards
	Different int         // replicas that have the given number of shards and another mapping, or do not show theirs
	Owned     int         // shards that any replica holds
}

// Look returns the replicas that share an outbox at present, without taking part. shards and mapping are those of a
// hypothetical replica with which they are compared, as in [Owner].
func Look(ctx context.Context, conn *pgx.Conn, table string, shards int, mapping string) (Peers, error) {
	found, err := listLocks(ctx, conn, classOf(table))
	if err != nil {
		return Peers{}, err
	}
	own := kindOf(shards, mapping)
	l := read(found, own)
	peers := Peers{Replicas: map[int]int{}, Owned: l.taken.Len()}
	if l.replicas > 0 {
		peers.Replicas[shards] = l.replicas
	}
	for k, n := range l.others {
		peers.Replicas[k.shards] += n
		if k.shards == shards {
			peers.Different += n
		}
	}
	return peers, nil
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

// A Replica is one of the replicas that share an outbox, as its locks show it.
type Replica struct {
	Backend int32 // process id of its control connection at the server
	Owned   Set   // shards that it holds
	Of      int   // number of shards into which it divides the rows
	Able    bool  // the replica says that it can publish
}

// Replicas returns the replicas that share an outbox at present, without taking part. The connection may go through a pooler.
func Replicas(ctx context.Context, conn *pgx.Conn, table string) ([]Replica, error) {
	found, err := listLocks(ctx, conn, classOf(table))
	if err != nil {
		return nil, err
	}
	var all []Replica
	at := map[int32]int{}
	for _, l := range found {
		if n := int32(l.object); n < 0 {
			m := memberOf(int(-n))
			at[l.pid] = len(all)
			all = append(all, Replica{Backend: l.pid, Of: m.shards, Able: m.able})
		}
	}
	for _, l := range found {
		if i, member := at[l.pid]; member && l.object < MaxShards {
			all[i].Owned.Add(int(l.object))
		}
	}
	slices.SortFunc(all, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(b.Owned.Len(), a.Owned.Len()), cmp.Compare(a.Backend, b.Backend))
	})
	return all, nil
}

// CleaningLock returns the advisory lock of the replica that deletes old rows of a table. It is in the table's class, and is
// neither a shard's nor a membership's.
func CleaningLock(table string) (class, object int32) { return classOf(table), 1<<31 - 2 }
