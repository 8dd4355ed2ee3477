package owner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/sql"
)

// ErrElsewhere reports that rows would be read from another server or database than the one that holds the ownership
// locks.
var ErrElsewhere = errors.New("a connection for reading and marking reaches another server or database than the one " +
	"for ownership")

// Witness lets connections prove that they reach the server of the control connection. With several hosts they could
// reach another server, after a failover for instance. The control connection holds a lock with a random number, and
// the other connections look for it. The zero Witness is ready for use, by one Owner.
type Witness struct {
	sign    atomic.Int64 // 0 while there is no control connection
	missing atomic.Bool  // a connection has not found the lock

	mu                sync.Mutex
	cluster, timeline string // of the newest server
}

const signKey = "outbox-relay:sign"

// Check returns [ErrElsewhere] if the connection does not reach the server of the control connection. It asks the
// server once for each pair of the two. Without a control connection there is nothing to check.
func (w *Witness) Check(ctx context.Context, conn *pgx.Conn) error {
	sign, known := w.sign.Load(), conn.PgConn().CustomData()
	if sign == 0 || known[signKey] == sign {
		return nil
	}
	var found bool
	err := conn.QueryRow(ctx, sql.Text("owner_sign.sql", nil), pgx.QueryExecModeExec, sign).Scan(&found)
	if err != nil {
		return fmt.Errorf("look for the owner's lock: %w", err)
	}
	if !found {
		if w.sign.Load() == sign { // otherwise the control connection has just been replaced
			w.missing.Store(true)
		}
		return ErrElsewhere
	}
	known[signKey] = sign
	return nil
}

// Newest returns an error if the server is a former primary whose successor has been reached by this process: having
// come back without knowing of it, such a server accepts writes, too. Services that do not show it count as the newest.
func (w *Witness) Newest(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, sql.Text("owner_timeline.sql", nil)).ReadAll()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		cluster, timeline := string(results[0].Rows[0][0]), string(results[0].Rows[0][1])
		if cluster == w.cluster && timeline < w.timeline { // both are hexadecimal and of the same length
			return fmt.Errorf("another server of its cluster was promoted: timeline %s, here %s; if this one is to be "+
				"the primary again, as it is or from a backup, restart outbox-relay", w.timeline, timeline)
		}
		w.cluster, w.timeline = cluster, timeline
	}
	return nil
}

// follow makes the witness look for the lock of a control connection; for none if the number is 0.
func (w *Witness) follow(sign int64) {
	w.missing.Store(false)
	w.sign.Store(sign)
}
