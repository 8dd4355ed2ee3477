// Package operate is what people do with an outbox beside relaying: see what waits in it and where a row is, retry and discard what has
// failed, publish rows again, delete old ones, and compare the table with what the brokers hold.
//
// It knows the table and nothing of the engine. All of it may be done while relays run, from whatever host: rows are selected without
// locks and changed in small transactions, which check again that a row still is as it was chosen.
package operate

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/sql"
)

// An Outbox is the table with the destinations that take its rows.
type Outbox struct {
	Pool   *pgxpool.Pool
	Views  []View // in the order of OUTBOX_DESTINATIONS; at least one
	Shards int    // OUTBOX_SHARDS, which is what the report says as long as no replica owns any
}

// A View is the table as one destination sees it.
type View struct {
	Destination string
	Table       *outbox.Table
	Shared      bool // it keeps its state in the columns of the table, not in some of its own
}

// limits bound the statements of one transaction.
type limits struct {
	statement time.Duration
	lock      time.Duration // 0: as the role's settings say
	inOrder   bool          // rather follow an index in its order than fetch and sort
}

// within runs a transaction whose statements are bounded, also when nobody waits for their answer any more.
func within(ctx context.Context, pool *pgxpool.Pool, l limits, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var lock, inOrder *string
		if l.lock > 0 {
			lock = new(strconv.FormatInt(max(l.lock.Milliseconds(), 1), 10))
		}
		if l.inOrder {
			inOrder = new("off")
		}
		statement := strconv.FormatInt(max(l.statement.Milliseconds(), 1), 10)
		if _, err := tx.Exec(ctx, sql.Text("limits.sql", nil), statement, lock, inOrder); err != nil {
			return fmt.Errorf("limit statements: %w", err)
		}
		return do(tx)
	})
}
