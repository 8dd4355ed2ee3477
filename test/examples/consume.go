package examples

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Once processes a message unless it has been processed before. What it changes in the database and the note of the
// message's id are committed together, so it may be called again after any error, and by several consumers at a time.
func Once(ctx context.Context, db *pgxpool.Pool, consumer, id string, process func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		noted, err := tx.Exec(ctx,
			"insert into processed_messages (consumer, id) values ($1, $2) on conflict do nothing", consumer, id)
		if err != nil {
			return fmt.Errorf("note message %s: %w", id, err)
		}
		if noted.RowsAffected() == 0 {
			return nil // processed before
		}
		return process(tx)
	})
}
