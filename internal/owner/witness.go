package owner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// ErrElsewhere says that rows would be read from another server, or another database, than the one whose locks say
// who owns them.
var ErrElsewhere = errors.New("a connection for reading and marking reaches another server or database than the one for ownership: all " +
	"hosts of OUTBOX_DATABASE_URL and OUTBOX_DATABASE_DIRECT_URL must lead to the same primary")

// Witness lets connections prove that they reach the server of the control connection. With several hosts they
// could end at another one, after a failover for instance. The control connection holds a lock with a random
// number, which the others look for. The zero Witness is ready for use, by one Owner.
type Witness struct {
	sign    atomic.Int64 // 0 while there is no control connection
	missing atomic.Bool  // somebody has not found it
}

const signKey = "outbox-relay:sign"

// Check returns [ErrElsewhere] when the connection does not reach the server of the control connection. It asks once for
// each pair of the two; without a control connection there is nothing to ask.
func (w *Witness) Check(ctx context.Context, conn *pgx.Conn) error {
	sign, known := w.sign.Load(), conn.PgConn().CustomData()
	if sign == 0 || known[signKey] == sign {
		return nil
	}
	var found bool
	if err := conn.QueryRow(ctx, sql.Text("owner_sign.sql", nil), pgx.QueryExecModeExec, sign).Scan(&found); err != nil {
		return fmt.Errorf("look for the owner's lock: %w", err)
	}
	if !found {
		if w.sign.Load() == sign { // else the control connection has just been replaced
			w.missing.Store(true)
		}
		return ErrElsewhere
	}
	known[signKey] = sign
	return nil
}

// sign takes the lock that the witness tells of.
func (s *session) sign(ctx context.Context) error {
	if s.Witness == nil {
		return nil
	}
	sign := rand.Int64N(1<<62) + 1
	if _, err := s.conn.Exec(ctx, "select pg_advisory_lock($1)", pgx.QueryExecModeExec, sign); err != nil {
		return fmt.Errorf("sign the session: %w", err)
	}
	s.Witness.missing.Store(false)
	s.Witness.sign.Store(sign)
	return nil
}

// refuted reports whether a connection has not found this session's lock. Then the session must end: the next one
// may reach the server that the others reach.
func (s *session) refuted() bool { return s.Witness != nil && s.Witness.missing.Load() }

func (s *session) unsign() {
	if s.Witness != nil {
		s.Witness.sign.Store(0)
	}
}
