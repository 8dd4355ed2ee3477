package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
)

// chooseTime bounds the statements that look through the table.
const chooseTime = time.Hour

// list declares cursors on a connection of their own, with hold: lists of rows that were chosen at one moment. The
// server keeps them, so that neither this process nor an open transaction has to: there may be millions of rows,
// changing them takes many transactions, and while a snapshot is open the relays step over every row that was relayed
// since. Through a pooler a cursor does not survive its transaction, which then stays open until the list is closed.
func (o *Outbox) list(ctx context.Context, declare func(tx pgx.Tx) error) (*pgx.Conn, error) {
	conn, err := o.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}) // all cursors show the same moment
	if err == nil {
		err = limits{statement: chooseTime}.limit(ctx, tx)
	}
	if err == nil {
		err = declare(tx)
	}
	if err == nil && pgsession.IsOwn(conn) {
		err = tx.Commit(ctx)
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
	if !pgsession.IsOwn(conn) && !conn.IsClosed() { // a pooler would give up its connection to the server
		_, _ = conn.Exec(ctx, "rollback")
	}
	_ = conn.Close(ctx)
}
