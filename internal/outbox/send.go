package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A request is a statement with its parameters.
type request struct {
	statement  string
	parameters [][]byte
	text       bool    // the parameters are in text form
	results    []int16 // formats of the result's columns; nil if all are binary
}

// limits bound statements. A limit that is not set is none, or what the caller's context leaves.
type limits struct {
	time time.Duration // how long each may take
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

// query runs a statement with binary parameters and returns its rows in binary form.
func (t *Table) query(ctx context.Context, l limits, statement string, parameters ...[]byte) ([][][]byte, error) {
	results, err := t.send(ctx, l, request{statement: statement, parameters: parameters})
	if err != nil {
		return nil, err
	}
	return results[0].Rows, nil
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
	b := t.begin(ctx, conn.Conn(), l)
	for _, r := range requests {
		b.prepare(r.statement)
	}
	silent := b.size
	for _, r := range requests {
		b.add(r)
	}
	results := conn.Conn().PgConn().ExecBatch(ctx, &b.Batch)
	for n := 0; results.NextResult(); n++ {
		if n >= silent {
			read(results.ResultReader())
		}
		_, _ = results.ResultReader().Close() // closing all of them returns the error
	}
	if err := results.Close(); err != nil {
		return 0, b.failed(ctx, err)
	}
	return time.Since(started), nil
}

// A batch is some statements that are sent to a connection at once and are one transaction.
//
// In a session of the relay's own, statements stay prepared and limits stay until others are wanted: parsing the
// statements at each poll of an empty outbox took the server longer than the poll, and so does setting the limits. A
// statement is prepared by SQL's own command, in the same transaction, so that the limits hold for that too: preparing
// waits for a lock on the table.
type batch struct {
	pgconn.Batch
	table *Table
	conn  *pgx.Conn
	size  int                 // number of statements
	names map[prepared]string // of the statements that are prepared; nil where none may be
	fresh bool                // a statement is being prepared
}

// A prepared statement keeps the types of its parameters. When the table has been opened again because the type of its
// id has changed, the same text needs others; when nothing has changed, it stays prepared.
type prepared struct{ types, statement string }

// limitsKey and preparedKey are the keys under which a connection keeps which limits it has, and the names of its
// prepared statements.
const limitsKey, preparedKey = "outbox-relay: limits", "outbox-relay: prepared"

// begin begins a batch whose statements the server ends a little before ctx does. They then do not continue when this
// process is gone, and a slow statement does not cost a connection.
func (t *Table) begin(ctx context.Context, conn *pgx.Conn, l limits) *batch {
	b := &batch{table: t, conn: conn}
	settings := [][]byte{nil, nil, nil, []byte("force_custom_plan"), []byte("true")}
	if deadline, ok := ctx.Deadline(); ok {
		// Rounded down, so that equal time limits look equal.
		left := time.Until(deadline).Truncate(time.Second / 5)
		settings[0] = milliseconds(left * 9 / 10)
		// The wait for the table's lock does not show how long the statement takes.
		settings[1] = milliseconds(left * 8 / 10)
	}
	if l.time > 0 {
		settings[0] = milliseconds(l.time)
	}
	if l.lock > 0 { // shorter than it takes another session to become the victim of a deadlock with this one
		settings[1] = milliseconds(min(l.lock, t.relation.Deadlock/2))
	}
	if l.inOrder {
		settings[2], settings[3] = []byte("off"), []byte("force_generic_plan")
	}
	data, known := conn.PgConn().CustomData(), false
	if own := pgsession.IsOwn(conn); own && !l.once {
		if b.names, _ = data[preparedKey].(map[prepared]string); b.names == nil {
			b.names = map[prepared]string{}
			data[preparedKey] = b.names
		}
		settings[4] = []byte("false")
		wanted := string(bytes.Join(settings, []byte(" ")))
		known = data[limitsKey] == wanted
		data[limitsKey] = wanted
	} else if !own {
		for _, statement := range pgsession.First() {
			b.add(request{statement: statement})
		}
	}
	if !known {
		statement := sql.Text("limits.sql", nil)
		b.prepare(statement)
		b.add(request{statement: statement, parameters: settings, text: true})
	}
	if l.first != "" {
		b.add(request{statement: l.first})
	}
	return b
}

func milliseconds(d time.Duration) []byte {
	return strconv.AppendInt(nil, max(d.Milliseconds(), 1), 10) // 0 would mean no limit
}

// prepare prepares a statement where statements stay prepared, unless it is.
func (b *batch) prepare(statement string) {
	statement = b.table.named(statement)
	key := prepared{b.table.relation.types, statement}
	if b.names == nil || b.names[key] != "" {
		return
	}
	name := "outbox_relay_" + strconv.Itoa(len(b.names))
	b.add(request{statement: "prepare " + name + " as " + statement})
	b.names[key], b.fresh = name, true
}

func (b *batch) add(r request) {
	b.size++
	parameters, results := binaryFormats(len(r.parameters)), r.results
	if r.text {
		parameters = nil
	}
	if results == nil {
		results = binaryFormats(1)
	}
	statement := b.table.named(r.statement)
	if name := b.names[prepared{b.table.relation.types, statement}]; name != "" {
		b.ExecPrepared(name, r.parameters, parameters, results)
		return
	}
	b.ExecParams(statement, r.parameters, nil, parameters, results)
}

func binaryFormats(n int) []int16 { return slices.Repeat([]int16{1}, n) }

// named is a statement with the condition for the partitions that it has to look at.
func (t *Table) named(statement string) string {
	if t.relation.parts == nil {
		return statement
	}
	return strings.ReplaceAll(statement, partitionMark, t.partitionCondition())
}

// failed returns the error to report for an error of the batch. It closes the connection if its prepared statements may
// be invalid: they were being prepared, another session has removed them, or the table has changed.
func (b *batch) failed(ctx context.Context, err error) error {
	delete(b.conn.PgConn().CustomData(), limitsKey) // the server has taken them back
	if b.names != nil && (b.fresh || unprepared(err) || Changed(err)) {
		if unprepared(err) {
			err = fmt.Errorf("the statements are prepared again: %w", err)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, b.conn.Close(ctx))
	}
	if e := server(err); e.Code == insufficientPrivilege && !checked(e) {
		return b.table.unwritable(e) // the right was revoked
	}
	return err
}
