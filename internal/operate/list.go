package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// chooseTime bounds the statements that look through the table.
const chooseTime = time.Hour

// list declares cursors on a connection of their own, with hold: lists of rows that were chosen at one moment. The
// server keeps them, so that neither this process nor an open transaction has to: there may be millions of rows,
// changing them takes many transactions, and while a snapshot is open the relays step over every row that was relayed
// since. A transaction pooler would lend the session with the cursors to others. Looking for the rows takes at most
// patience.
func (o *Outbox) list(ctx context.Context, patience time.Duration, declare func(pgx.Tx) error) (*pgx.Conn, error) {
	conn, err := o.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	// The rows are found by the commit, which the server's own time limit spares.
	late := time.AfterFunc(patience, func() { _ = conn.PgConn().CancelRequest(context.WithoutCancel(ctx)) })
	defer late.Stop()
	err = owner.CheckPooler(ctx, conn, o.Connect)
	if errors.Is(err, owner.ErrPooler) {
		err = errors.New("a transaction pooler cannot keep the list of rows: set OUTBOX_DATABASE_DIRECT_URL")
	}
	if err == nil {
		moment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead} // the same for all cursors
		err = pgx.BeginTxFunc(ctx, conn, moment, func(tx pgx.Tx) error {
			if err := (limits{statement: patience}).limit(ctx, tx); err != nil {
				return err
			}
			return declare(tx)
		})
	}
	if err != nil {
		closeList(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// fetch calls a function with the rows of a cursor, as many at a time as are wanted.
func fetch[T any](ctx context.Context, conn *pgx.Conn, cursor string, wanted int, read pgx.RowToFunc[T],
	do func([]T) error,
) error {
	for {
		found, _ := conn.Query(ctx, fmt.Sprintf("fetch forward %d from %s", wanted, cursor)) // the rows have its error
		rows, err := pgx.CollectRows(found, read)
		if err != nil {
			return fmt.Errorf("list rows: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		if err := do(rows); err != nil {
			return err
		}
	}
}

// closeList ends the session, and with it the cursors and locks.
func closeList(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
