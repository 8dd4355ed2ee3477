package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrPooler reports that the control connection goes through a transaction pooler, where a session's locks mean
// nothing.
var ErrPooler = errors.New("the connection for ownership goes through a transaction pooler, which breaks " +
	"session locks")

// pooled adds the remedy to an error that is [ErrPooler].
func (o *Owner) pooled(err error) error {
	if !errors.Is(err, ErrPooler) {
		return err
	}
	return fmt.Errorf("%w: set %s to the PostgreSQL server itself", err, o.Names.Of("Direct"))
}

// poolerRounds is how many chances a pooler gets to show itself. Other clients of a busy pooler may take the server
// session in between, so that a single look misses it.
const poolerRounds = 20

// CheckPooler returns ErrPooler if the connection changes its server session between transactions. A pooler invents the
// process id that it reports to its clients at login. If that id is not the server's, a second connection opens
// transactions. In transaction pooling it takes the server session that the first connection has just used, or the
// first gets another session for its next transaction. A pooler that keeps sessions apart passes.
func CheckPooler(ctx context.Context, conn *pgx.Conn, connect func(context.Context) (*pgx.Conn, error)) error {
	if pid, err := backend(ctx, conn); err != nil || pid == conn.PgConn().PID() {
		return err
	}
	second, err := connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer hangUp(ctx, second)
	for range poolerRounds {
		if pooled, err := changes(ctx, conn, second); err != nil {
			return err
		} else if pooled {
			return ErrPooler
		}
	}
	return nil
}

// changes reports whether a transaction of the second connection shows that the first one has no server session of its
// own.
func changes(ctx context.Context, conn, second *pgx.Conn) (bool, error) {
	before, err := backend(ctx, conn)
	if err != nil {
		return false, err
	}
	transaction, err := second.Begin(ctx)
	if err != nil {
		return false, fmt.Errorf("look for a pooler: %w", err)
	}
	defer func() { _ = transaction.Rollback(ctx) }() // it has written nothing
	other, err := backend(ctx, second)
	if err != nil {
		return false, err
	}
	after, err := backend(ctx, conn)
	return err == nil && (other == before || after != before), err
}

// backend returns the server process that executes the connection's statements at present.
func backend(ctx context.Context, conn *pgx.Conn) (uint32, error) {
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return 0, fmt.Errorf("look for a pooler: %w", err)
	}
	return pid, nil
}

// Answered reports whether err means that a server was reached but cannot be used for ownership.
func Answered(err error) bool {
	return errors.Is(err, ErrPooler) || errors.Is(err, ErrStandby) || errors.Is(err, ErrElsewhere)
}
