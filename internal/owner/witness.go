package owner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

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

// follow makes the witness look for the lock of a control connection; for none if the number is 0.
func (w *Witness) follow(sign int64) {
	w.missing.Store(false)
	w.sign.Store(sign)
}
