package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrPooler says that the control connection goes through a transaction pooler, where a session's
// locks mean nothing.
var ErrPooler = errors.New("the connection for ownership goes through a transaction pooler, which breaks session locks: set OUTBOX_DATABASE_DIRECT_URL to the PostgreSQL server itself")

// CheckPooler returns ErrPooler when the connection changes its server session between transactions. A pooler
// invents the process id that it tells its clients at login; if that is not the server's, a second connection
// keeps a transaction open: in transaction pooling it takes the server session that the first has just
// used, or the first gets another one for its next transaction. A pooler that keeps sessions apart passes.
func CheckPooler(ctx context.Context, conn *pgx.Conn, connect func(context.Context) (*pgx.Conn, error)) error {
	before, err := backend(ctx, conn)
	if err != nil || before == conn.PgConn().PID() {
		return err
	}
	second, err := connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = second.Close(ctx) }() // it holds nothing
	transaction, err := second.Begin(ctx)
	if err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	defer func() { _ = transaction.Rollback(ctx) }() // it has written nothing
	other, err := backend(ctx, second)
	if err != nil {
		return err
	}
	after, err := backend(ctx, conn)
	if err != nil {
		return err
	}
	if other == before || after != before {
		return ErrPooler
	}
	return nil
}

// backend returns the server process that executes the connection's statements at present.
func backend(ctx context.Context, conn *pgx.Conn) (uint32, error) {
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return 0, fmt.Errorf("look for a pooler: %w", err)
	}
	return pid, nil
}
