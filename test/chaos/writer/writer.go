// Package writer is the application: concurrent transactions that write rows to the outbox, hold them open, roll
// them back, lose their connections, and note what became of each.
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
	URL    string // of the database, whose search path leads to Tables and the outbox
	Seed   uint64
	Topics []string // the rows' topics; most go to the first
	Absent string   // the topic that is made later
	Bad    []Bad    // kinds of rows that no broker takes

	pool *pgxpool.Pool
	log  log
}

// A Bad is a way to make a row that no broker takes.
type Bad struct {
	Name    string
	Topic   string // instead of the row's, if not empty
	Headers string // the same, as JSON
	Size    int    // of the payload
}

const (
	keys       = 30
	absentKeys = 3 // whose rows may go to the topic that is made later
	workers    = 6 // with keys
	late       = 4 // without, whose transactions take long
	sessions   = 30
	rollbacks  = 10 // one transaction in so many
	bads       = 80 // one row in so many
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

// Close ends the connections.
func (w *Writers) Close() {
	if w.pool != nil {
		w.pool.Close()
	}
}

// Run writes until ctx ends. Transactions that are open then are ended first, without further delay.
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
					wait(ctx, 50*time.Millisecond) // the database is away, or has thrown us out
				}
				wait(ctx, time.Duration(r.IntN(20))*time.Millisecond)
			}
		})
	}
	group.Wait()
}

// Burst writes so many rows of some keys in one transaction.
func (w *Writers) Burst(ctx context.Context, seed uint64, rows int) {
	r := rand.New(rand.NewPCG(w.Seed, seed))
	s := shape{keys: map[int]int{}}
	for range 5 {
		s.keys[absentKeys+r.IntN(keys-absentKeys)] += rows / 5
	}
	_ = w.transact(ctx, r, s) // what became of it is noted
}

// Linger keeps a transaction with a row open for a long time.
func (w *Writers) Linger(ctx context.Context, seed uint64, time time.Duration) {
	_ = w.transact(ctx, rand.New(rand.NewPCG(w.Seed, seed)), shape{free: 1, hold: time}) // what became of it is noted
}

// History returns every row that was written, and what is in the outbox. Nobody may write any more.
func (w *Writers) History(ctx context.Context) ([]history.Row, []history.Final, error) {
	ids, err := collect(ctx, w.pool, "select id from transactions", pgx.RowTo[int])
	if err != nil {
		return nil, nil, err
	}
	traces := map[int]bool{}
	for _, id := range ids {
		traces[id] = true
	}
	table, err := collect(ctx, w.pool, `select id::text, relayed_at is not null, failed_at is not null, attempt, coalesce(last_error, '')
		from outbox_messages order by seq`, pgx.RowToStructByPos[history.Final])
	return w.log.resolved(traces), table, err
}

func collect[T any](ctx context.Context, pool *pgxpool.Pool, query string, to pgx.RowToFunc[T]) ([]T, error) {
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	found, err := pgx.CollectRows(rows, to)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	return found, nil
}

// Pending counts the rows that the relays still have to settle.
func (w *Writers) Pending(ctx context.Context) (n int, err error) {
	err = w.pool.QueryRow(ctx, "select count(*) from outbox_messages where relayed_at is null and failed_at is null").Scan(&n)
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
