// Package examples holds what the documents show and the tests of it: its Go sample is compiled and run, its
// SQL is executed, its configurations are loaded, its links are followed.
package examples

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/outboxwriter"
)

// PlaceOrder stores an order and the message about it: both, or neither.
func PlaceOrder(ctx context.Context, db *pgxpool.Pool, customer string, cents int) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var order int64
		err := tx.QueryRow(ctx, "insert into orders (customer, cents) values ($1, $2) returning id", customer, cents).
			Scan(&order)
		if err != nil {
			return fmt.Errorf("insert order: %w", err)
		}
		payload, err := json.Marshal(map[string]any{"order": order, "customer": customer, "cents": cents})
		if err != nil {
			return fmt.Errorf("encode message: %w", err)
		}
		return outboxwriter.Insert(ctx, outboxwriter.Pgx(tx), outboxwriter.Message{
			Topic: "orders.placed", Key: customer, Payload: payload,
		})
	})
}
