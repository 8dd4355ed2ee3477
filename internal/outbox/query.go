package outbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// query runs a statement with binary parameters and returns its rows in binary form.
func (t *Table) query(ctx context.Context, l limits, statement string, parameters ...[]byte) ([][][]byte, error) {
	b := batch{limits: l}
	b.add(statement, parameters...)
	results, err := t.send(ctx, b)
	if err != nil {
		return nil, err
	}
	return results[0].Rows, nil
}

// batch is some statements that are sent at once and are one transaction.
type batch struct {
	statements []string
	parameters [][][]byte
	text       bool // the parameters are in text form
	limits
}

// limits bound statements. For a limit that is not set the role's settings hold.
type limits struct {
	lock time.Duration // how long each may wait for a lock

	// first is a statement whose locks are taken before those of the others ([Table.writeLock]).
	first string

	// inOrder makes the planner follow an index in its order. With statistics that were gathered while few rows were
	// pending, it would otherwise fetch and sort the whole backlog for each page, which took 100 times as long at
	// 150,000 rows.
	inOrder bool

	// generic makes the planner plan a statement once for each connection, whatever its parameters. With inOrder
	// nothing in the plan depends on them, and planning is three quarters of what a poll costs.
	generic bool
}

func (b *batch) add(statement string, parameters ...[]byte) {
	b.statements, b.parameters = append(b.statements, statement), append(b.parameters, parameters)
}

// send runs a batch and returns the results of its statements. If a statement fails, it returns the results of those
// before it, with the error.
func (t *Table) send(ctx context.Context, b batch) ([]*pgconn.Result, error) {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	p := t.begin(ctx, conn.Conn(), b.limits)
	if b.first != "" {
		p.silently(b.first, nil)
	}
	for i, statement := range b.statements {
		formats := binaryFormats(len(b.parameters[i]))
		if b.text {
			formats = nil
		}
		p.add(statement, b.parameters[i], formats, []int16{1})
	}
	p.send(ctx)
	var results []*pgconn.Result
	for result := p.next(); result != nil; result = p.next() {
		if read := result.Read(); read.Err == nil {
			results = append(results, read)
		}
	}
	if err := p.results.Close(); err != nil {
		return results, p.failed(ctx, err)
	}
	return results, nil
}

func milliseconds(d time.Duration) []byte {
	return strconv.AppendInt(nil, max(d.Milliseconds(), 1), 10) // 0 would mean no limit
}

func binaryFormats(n int) []int16 { return slices.Repeat([]int16{1}, n) }
