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

// poolerRounds is how many chances a pooler gets to show itself. Other clients of a busy pooler may take the server
// session in between, so that a single look misses it.
const poolerRounds = 20

// CheckPooler returns ErrPooler if the connection changes its server session between transactions. A pooler invents the
// process id that it reports to its clients at login. If that id is not the server's, a second connection opens
// transactions. In transaction pooling it takes the server session that the first connection has just used, or the
// first gets another session for its next transaction. A pooler that keeps sessions apart passes.
func CheckPooler(ctx context.Context, conn *pgx.Conn, connect func(context.Context) (*pgx.Conn, error)) error {
	pid, err := backend(ctx, conn)
	if err != nil || pid == conn.PgConn().PID() {
		return err
	}
	second, err := connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer hangUp(ctx, second)
	for range poolerRounds {
		_, began := second.Exec(ctx, "begin", pgx.QueryExecModeExec)
		other, asked := backend(ctx, second)
		now, err := backend(ctx, conn)
		_, ended := second.Exec(ctx, "commit", pgx.QueryExecModeExec)
		if err := errors.Join(began, asked, err, ended); err != nil {
			return fmt.Errorf("look for a pooler: %w", err)
		}
		if other == pid || now != pid {
			return ErrPooler
		}
	}
	return nil
}

// backend returns the server process that executes the connection's statements at present.
func backend(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	if err = conn.QueryRow(ctx, "select pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		err = fmt.Errorf("ask for the server process: %w", err)
	}
	return pid, err
}

// Answered reports whether err means that a server was reached but cannot be used for ownership.
func Answered(err error) bool {
	return errors.Is(err, ErrPooler) || errors.Is(err, ErrStandby) || errors.Is(err, ErrElsewhere)
}
