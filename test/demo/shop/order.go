package shop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

const (
	patience  = 10 * time.Second // limit of one transaction
	oneIsLost = 10               // one transaction in this many is rolled back
)

// order writes an order and one to three messages about it in one transaction, and sometimes rolls everything back at
// the end.
func (s *Shop) order(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin order: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after a commit

	who, cents := customer(rand.IntN(customers)), 100+rand.IntN(10_000)
	// The business change comes first. It locks the customer until the transaction ends, so that transactions of one
	// customer are committed in the order in which their messages are numbered. Without such a lock there is no order
	// that a relay could keep.
	if _, err := tx.Exec(ctx, "update customers set spent = spent + $2 where name = $1", who, cents); err != nil {
		return fmt.Errorf("charge customer: %w", err)
	}
	var id int64
	err = tx.QueryRow(ctx, "insert into orders (customer, cents) values ($1, $2) returning id", who, cents).Scan(&id)
	if err != nil {
		return fmt.Errorf("insert order: %w", err)
	}
	var messages []ledger.Row
	for _, event := range []string{"placed", "paid", "shipped"}[:1+rand.IntN(3)] {
		message, err := s.write(ctx, tx, who, map[string]any{"order": id, "event": event, "cents": cents})
		if err != nil {
			return fmt.Errorf("insert message: %w", err)
		}
		messages = append(messages, message)
	}

	if rand.IntN(oneIsLost) == 0 {
		s.Ledger.RolledBack(messages)
		return tx.Rollback(ctx)
	}
	s.Ledger.Committing(messages)
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit order: %w", err)
	}
	s.Ledger.Committed(messages)
	return nil
}

// write inserts a message. The customer is its key: a consumer sees the messages of one customer in order.
func (s *Shop) write(ctx context.Context, tx pgx.Tx, who string, payload map[string]any) (ledger.Row, error) {
	row := ledger.Row{Key: who}
	if n := s.written.Add(1); s.Large > 0 && n%int64(s.Large) == 0 {
		row.Large, payload["note"] = true, strings.Repeat("x", LargePayload)
	}
	err := tx.QueryRow(ctx, `
		insert into outbox_messages (topic, key, payload) values ($1, $2, $3)
		returning id::text, seq, payload::text`, s.Topic, who, payload).Scan(&row.ID, &row.Seq, &row.Payload)
	return row, err
}
