// Package shop is a sample application. It takes orders, and writes the messages about an order into its
// outbox in the same transaction: see order.go.
package shop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

// Tables of the shop. Its outbox is the table that `outbox-relay schema` prints.
const Tables = `
create table customers (
  name  text primary key,
  spent bigint not null default 0
);
create table orders (
  id       bigint generated always as identity primary key,
  customer text not null references customers,
  cents    bigint not null
);`

const customers = 100

// A Shop takes orders at a steady rate, from several workers.
type Shop struct {
	Pool    *pgxpool.Pool
	Topic   string // topic of the messages
	Workers int
	Rate    int    // transactions a second, all workers together
	Ledger  Ledger // records what is committed and what is rolled back
	Large   int    // one row in this many has a large payload; 0 for none

	written atomic.Int64 // rows
}

// A Ledger records transactions; see [ledger.Ledger].
type Ledger interface {
	Committing(rows []ledger.Row)
	Committed(rows []ledger.Row)
	RolledBack(rows []ledger.Row)
}

// LargePayload is the smallest size of a large payload in bytes.
const LargePayload = 64 << 10

// Open makes the customers.
func (s *Shop) Open(ctx context.Context) error {
	for i := range customers {
		if _, err := s.Pool.Exec(ctx, "insert into customers (name) values ($1)", customer(i)); err != nil {
			return fmt.Errorf("make customers: %w", err)
		}
	}
	return nil
}

// Run takes orders until ctx ends, which is not an error, or until an order cannot be written. Transactions that have
// begun are finished.
func (s *Shop) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(time.Second / time.Duration(s.Rate))
	defer tick.Stop()
	failures := make([]error, s.Workers)
	var workers sync.WaitGroup
	for i := range s.Workers {
		workers.Go(func() {
			defer stop() // a worker that fails ends all of them
			for failures[i] == nil {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					failures[i] = s.order(context.WithoutCancel(ctx))
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(failures...)
}

func customer(i int) string { return fmt.Sprintf("customer-%02d", i) }
