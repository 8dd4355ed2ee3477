// Package writer is the application: concurrent transactions that write rows to the outbox, hold them open, roll them
// back, lose their connections, and record the outcome of each row.
package writer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

// Name is the application_name of the writers' sessions.
const Name = "chaos-writer"

// Tables of the application, beside its outbox.
const Tables = `
create table keys (key text primary key, number bigint not null default 0);
create table transactions (id bigint primary key);`

// Writers write to one outbox. The exported fields are set before Open.
type Writers struct {
	URL    string // URL of the database, whose search path leads to Tables and the outbox
	Seed   uint64
	Topics []string // the rows' topics; most go to the first
	Absent []string // topics that are made later
	Bad    []Bad    // kinds of rows that no broker takes
	Bads   int      // one row in this many is bad

	pool *pgxpool.Pool
	log  log
}

// A Bad is a kind of row that no broker takes.
type Bad struct {
	Name    string
	Topic   string // replaces the row's, if not empty
	Headers string // replace the row's, as JSON, if not empty
	Size    int    // bytes of the payload
}

const (
	keys       = 30
	absentKeys = 3 // number of keys whose rows may go to a topic that is made later
	workers    = 6 // workers that write rows with keys
	late       = 4 // workers that write rows without keys, in long transactions
	sessions   = 30
	rollbacks  = 10 // one transaction in this many is rolled back
)

// Open connects and makes the keys.
func (w *Writers) Open(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(w.URL)
	if err != nil {
		return fmt.Errorf("database of the writers: %w", err)
	}
	config.MaxConns = sessions
	config.ConnConfig.RuntimeParams["application_name"] = Name
	if w.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return fmt.Errorf("open database of the writers: %w", err)
	}
	for i := range keys {
		if _, err := w.pool.Exec(ctx, "insert into keys (key) values ($1)", key(i)); err != nil {
			return fmt.Errorf("make keys: %w", err)
		}
	}
	return nil
}

// Close closes the connections.
func (w *Writers) Close() {
	if w.pool != nil {
		w.pool.Close()
	}
}

// Run writes until ctx ends. Transactions that are open at that moment are ended first, without further delay.
func (w *Writers) Run(ctx context.Context) {
	var group sync.WaitGroup
	for i := range workers + late {
		r := rand.New(rand.NewPCG(w.Seed, uint64(i)))
		group.Go(func() {
			for ctx.Err() == nil {
				s := ordered(r)
				if i >= workers {
					s = unordered(r)
				}
				if w.transact(ctx, r, s) != nil {
					wait(ctx, 50*time.Millisecond) // the database is away, or has ended the session
				}
				wait(ctx, time.Duration(r.IntN(20))*time.Millisecond)
			}
		})
	}
	group.Wait()
}

// Burst writes the given number of rows of some keys in one transaction.
func (w *Writers) Burst(ctx context.Context, seed uint64, rows int) {
	r := rand.New(rand.NewPCG(w.Seed, seed))
	s := shape{keys: map[int]int{}}
	for range 5 {
		s.keys[absentKeys+r.IntN(keys-absentKeys)] += rows / 5
	}
	_ = w.transact(ctx, r, s) // the outcome is recorded
}

// Linger keeps a transaction with a row open for a long time.
func (w *Writers) Linger(ctx context.Context, seed uint64, time time.Duration) {
	_ = w.transact(ctx, rand.New(rand.NewPCG(w.Seed, seed)), shape{free: 1, hold: time}) // the outcome is recorded
}

// Rows returns every row that was written. It must be called when nothing writes any more.
func (w *Writers) Rows(ctx context.Context) ([]history.Row, error) {
	ids, err := Collect(ctx, w, "select id from transactions", pgx.RowTo[int])
	if err != nil {
		return nil, err
	}
	traces := map[int]bool{}
	for _, id := range ids {
		traces[id] = true
	}
	return w.log.resolved(traces), nil
}

// Collect returns the rows that a query of the application's database returns.
func Collect[T any](ctx context.Context, w *Writers, query string, to pgx.RowToFunc[T]) ([]T, error) {
	rows, err := w.pool.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	found, err := pgx.CollectRows(rows, to)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	return found, nil
}

// Pending counts the rows that the relays still have to settle, which the given condition selects.
func (w *Writers) Pending(ctx context.Context, condition string) (n int, err error) {
	err = w.pool.QueryRow(ctx, "select count(*) from outbox_messages where "+condition).Scan(&n)
	return n, err
}

func key(i int) string {
	if i < absentKeys {
		return fmt.Sprintf("absent-%d", i)
	}
	return fmt.Sprintf("key-%02d", i)
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
