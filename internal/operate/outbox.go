// Package operate is what operators do with an outbox besides relaying: see what waits in it and where a row is, retry
// and discard failed rows, publish rows again, delete old ones, and compare the table with what the brokers hold.
//
// The package knows the table and nothing of the engine. Everything may be done while relays run, from any host: rows
// are selected without locks and changed in small transactions, which check again that a row is unchanged since it was
// chosen.
package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/sql"
)

// An Outbox is the table with the destinations that take its rows.
type Outbox struct {
	Pool *pgxpool.Pool
	// Connect makes connections for [Outbox.Choose] and [Outbox.Verify].
	Connect func(context.Context) (*pgx.Conn, error)
	Views   []*outbox.Table // as each destination sees it, in the order of the configuration; at least one
	Close   func()          // closes the pool; nil for one that others close
	// Topics are SQL expressions for the rows' topics on the brokers of these destinations. Only [Outbox.RowsOf] and
	// [Outbox.Verify] use them.
	Topics []string
	Shards int // number by the configuration, reported as long as no replica owns any
}

// nameOf returns the name of the destination with a number that a statement gave; empty if no destination takes the
// row.
func (o *Outbox) nameOf(taker int) string {
	if taker < 0 {
		return ""
	}
	return o.Views[taker].View().Name
}

// pause returns after some time, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// limits bound the statements of one transaction. A statement waits for locks for half of its time at most, so that
// the error says which of the two it was.
type limits struct {
	statement time.Duration
	inOrder   bool // follow an index in its order rather than fetch and sort
}

// within runs a transaction with limits on its statements. The limits hold even after the caller has stopped waiting
// for the answer.
func (o *Outbox) within(ctx context.Context, l limits, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, o.Pool, func(tx pgx.Tx) error {
		if err := l.limit(ctx, tx); err != nil {
			return err
		}
		return do(tx)
	})
}

// limit limits the statements of a transaction, which must have just begun.
func (l limits) limit(ctx context.Context, tx pgx.Tx) error {
	if err := pgsession.Within(ctx, tx); err != nil {
		return err
	}
	var inOrder *string
	if l.inOrder {
		inOrder = new("off")
	}
	statement, lock := fmt.Sprint(l.statement.Milliseconds()), fmt.Sprint(l.statement.Milliseconds()/2)
	set := sql.Text("limits.sql", nil)
	if _, err := tx.Exec(ctx, set, statement, lock, inOrder, "force_custom_plan", true); err != nil {
		return fmt.Errorf("limit statements: %w", err)
	}
	return nil
}
