package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// traffic is an application that inserts rows of 512 bytes at a steady rate, each in a transaction of its own. Row n
// has the key n modulo keys. One writer writes all rows of a key, in order.
type traffic struct {
	from, rows int
	perSecond  float64 // rate of all writers together; the pauses vary
	writers    int     // keys is a multiple of it
	keys       int
	notify     bool                                         // each statement notifies the relay's channel
	direct     func(ctx context.Context, body []byte) error // publishes the row after its commit; nil for none
	// longest time that transactions stay open between insert and commit
	late time.Duration
}

// commit records when a row was committed, by the clock of its writer.
type commit struct {
	row      int
	sent     time.Time // time of sending COMMIT, or the statement that commits by itself
	returned time.Time
}

const one = `insert into outbox_messages (topic, key, payload, headers)
values ($1, 'order-' || $2, jsonb_build_object('n', lpad($3, 9, '0'), 'data', rpad(md5($3), 479, 'x')),
'{"type": "order.created"}')`

// run writes the rows and returns their commits in the order of the rows.
func (t traffic) run(ctx context.Context, database, topic string) ([]commit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commits, failures := make([]commit, t.rows), make(chan error, t.writers)
	started := time.Now()
	for w := range t.writers {
		go func() {
			err := t.write(ctx, database, topic, w, started, commits)
			if err != nil {
				cancel()
			}
			failures <- err
		}()
	}
	var all error
	for range t.writers {
		all = errors.Join(all, <-failures)
	}
	return commits, all
}

func (t traffic) write(ctx context.Context, database, topic string, writer int, started time.Time,
	commits []commit,
) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("connect writer: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	statement := one
	if t.notify {
		statement = "with inserted as (" + one + ") select pg_notify('outbox_messages', '')"
	}
	for n := t.from + writer; n < t.from+t.rows; n += t.writers {
		pace := time.Duration(float64(time.Second) / t.perSecond)
		due := started.Add(time.Duration(n-t.from) * pace)
		if pace > time.Millisecond { // so that it does not coincide with a rhythm of the relay
			due = due.Add(rand.N(pace))
		}
		if err := pause(ctx, time.Until(due)); err != nil {
			return err
		}
		c := &commits[n-t.from]
		c.row = n
		args := []any{topic, fmt.Sprint(n % t.keys), fmt.Sprint(n)}
		if t.late == 0 {
			c.sent = time.Now()
			_, err = conn.Exec(ctx, statement, args...)
		} else {
			err = t.writeLate(ctx, conn, statement, args, c)
		}
		c.returned = time.Now()
		if err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		if t.direct == nil {
			continue
		}
		if err := t.direct(ctx, fmt.Appendf(nil, `{"n": "%09d", "data": "%0479d"}`, n, 0)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

func (t traffic) writeLate(ctx context.Context, conn *pgx.Conn, statement string, args []any, c *commit) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // does nothing after a commit
	if _, err := tx.Exec(ctx, statement, args...); err != nil {
		return err
	}
	if err := pause(ctx, rand.N(t.late)); err != nil {
		return err
	}
	c.sent = time.Now()
	return tx.Commit(ctx)
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
