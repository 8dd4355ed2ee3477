package outbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A request is a statement with its parameters.
type request struct {
	statement  string
	parameters [][]byte
	text       bool    // the parameters are in text form
	results    []int16 // formats of the result's columns; nil if all are binary
}

// query runs a statement with binary parameters and returns its rows in binary form.
func (t *Table) query(ctx context.Context, l limits, statement string, parameters ...[]byte) ([][][]byte, error) {
	results, err := t.send(ctx, l, request{statement: statement, parameters: parameters})
	if err != nil {
		return nil, err
	}
	return results[0].Rows, nil
}

// limits bound statements. A limit that is not set is none.
type limits struct {
	lock time.Duration // how long each may wait for a lock
	once bool          // the statements do not stay prepared: they are sent rarely, or cannot be prepared, like explain

	// first is a statement whose locks are taken before those of the others ([Table.writeLock]).
	first string

	// inOrder makes the planner follow an index in its order. With statistics that were gathered while few rows were
	// pending, it would otherwise fetch and sort the whole backlog for each page, which took 100 times as long at
	// 150,000 rows. Nothing in such a plan depends on the parameters, so each connection makes it once: planning is
	// three quarters of what a poll costs.
	inOrder bool
}

// send runs some statements, which are sent at once and are one transaction, and returns their results. If one fails,
// it returns the results of those before it, with the error.
func (t *Table) send(ctx context.Context, l limits, requests ...request) (results []*pgconn.Result, err error) {
	_, err = t.run(ctx, l, requests, func(result *pgconn.ResultReader) {
		if read := result.Read(); read.Err == nil {
			results = append(results, read)
		}
	})
	return results, err
}

// run sends some statements over a connection of the pool, and calls read for the results. It returns how long it has
// waited for them.
func (t *Table) run(
	ctx context.Context, l limits, requests []request, read func(*pgconn.ResultReader),
) (took time.Duration, err error) {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	started := time.Now()
	p := t.begin(ctx, conn.Conn(), l)
	if l.first != "" {
		p.silently(l.first, nil)
	}
	for _, r := range requests {
		p.add(r)
	}
	p.send(ctx)
	for result := p.next(); result != nil; result = p.next() {
		read(result)
	}
	if err := p.results.Close(); err != nil {
		return 0, p.failed(ctx, err)
	}
	return time.Since(started), nil
}

func milliseconds(d time.Duration) []byte {
	return strconv.AppendInt(nil, max(d.Milliseconds(), 1), 10) // 0 would mean no limit
}

func binaryFormats(n int) []int16 { return slices.Repeat([]int16{1}, n) }
