package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
)

// pipeline is some statements that are sent to a connection at once and are one transaction.
//
// Where statements stay prepared, a connection's first use of a statement is preceded by SQL's own command to prepare
// it, in the same transaction, so that the limits hold for it too: preparing waits for a lock on the table. Parsing the
// statements at each poll of an empty outbox took the server longer than the poll.
type pipeline struct {
	table    *Table
	conn     *pgx.Conn
	prepares bool // statements stay prepared on the connection
	batch    pgconn.Batch
	added    []bool // for each statement sent, in order: true if it was added, false if its result means nothing
	fresh    bool   // a statement is being prepared
	results  *pgconn.MultiResultReader
	at       int // index of the next result
}

// begin begins a pipeline whose statements the server ends a little before ctx does. They then do not continue when
// this process is gone, and a slow statement does not cost a connection.
func (t *Table) begin(ctx context.Context, conn *pgx.Conn, l limits) *pipeline {
	var settings [3][]byte
	if deadline, ok := ctx.Deadline(); ok {
		settings[0] = milliseconds(roundly(time.Until(deadline) * 9 / 10))
		// The wait for the table's lock does not show how long the statement takes.
		settings[1] = milliseconds(roundly(time.Until(deadline) * 8 / 10))
	}
	if l.lock > 0 { // shorter than it takes another session to become the victim of a deadlock with this one
		settings[1] = milliseconds(min(l.lock, t.relation.Deadlock/2))
	}
	if l.inOrder {
		settings[2] = []byte("off")
	}
	p := &pipeline{table: t, conn: conn, prepares: !l.once && (t.prepares || pgsession.KeepsStatements(conn))}
	p.ownSettings()
	statement := t.limits
	if l.inOrder {
		statement = t.limitsGeneric
	}
	if p.prepares && pgsession.IsOwn(conn) {
		statement = strings.ReplaceAll(statement, ", true)", ", false)")
		wanted := statement + string(bytes.Join(settings[:], []byte(" ")))
		data := conn.PgConn().CustomData()
		if data[limitsKey] == wanted {
			return p
		}
		data[limitsKey] = wanted
	}
	p.add(request{statement: statement, parameters: settings[:], text: true})
	p.added[len(p.added)-1] = false
	return p
}

// limitsKey is the key under which a connection that is not behind a pooler keeps which limits it has. Setting them
// takes the server longer than an idle poll, so they stay until others are wanted.
const limitsKey = "outbox-relay: limits"

// roundly rounds a duration down to two digits, so that equal time limits look equal.
func roundly(d time.Duration) time.Duration {
	unit := time.Millisecond
	for d >= 100*unit {
		unit *= 10
	}
	return d.Truncate(unit)
}

// preparedKey is the key under which a connection keeps the names of its prepared statements.
const preparedKey = "outbox-relay: prepared"

func (p *pipeline) add(r request) {
	statement, formats, results := r.statement, binaryFormats(len(r.parameters)), r.results
	if r.text {
		formats = nil
	}
	if results == nil {
		results = []int16{1}
	}
	if p.table.relation.parts != nil {
		statement = strings.ReplaceAll(statement, partitionMark, p.table.partitionCondition())
	}
	if !p.prepares {
		p.batch.ExecParams(statement, r.parameters, nil, formats, results)
		p.added = append(p.added, true)
		return
	}
	data := p.conn.PgConn().CustomData()
	names, _ := data[preparedKey].(map[string]string)
	if names == nil {
		names = map[string]string{}
		data[preparedKey] = names
	}
	name := names[statement]
	if name == "" {
		name = "outbox_relay_" + strconv.Itoa(len(names))
		names[statement] = name
		p.silently("prepare "+name+" as "+statement, nil)
		p.fresh = true
	}
	p.batch.ExecPrepared(name, r.parameters, formats, results)
	p.added = append(p.added, true)
}

// ownSettings begins the transaction with the relay's settings, unless the session has them.
func (p *pipeline) ownSettings() {
	if pgsession.IsOwn(p.conn) {
		return
	}
	for _, s := range pgsession.First() {
		p.silently(s, nil)
	}
}

// silently adds a statement whose result means nothing. Its parameters are in text form.
func (p *pipeline) silently(statement string, parameters [][]byte) {
	p.batch.ExecParams(statement, parameters, nil, nil, nil)
	p.added = append(p.added, false)
}

func (p *pipeline) send(ctx context.Context) { p.results = p.conn.PgConn().ExecBatch(ctx, &p.batch) }

// next returns the result of the next added statement, nil if the server has not got that far; closing results returns
// the reason.
func (p *pipeline) next() *pgconn.ResultReader {
	for p.results.NextResult() {
		p.at++
		if p.added[p.at-1] {
			return p.results.ResultReader()
		}
		if _, err := p.results.ResultReader().Close(); err != nil {
			break
		}
	}
	return nil
}

// failed returns the error to report for an error of the pipeline. It closes the connection if its prepared statements
// may be invalid: they were being prepared, another session has removed them, or the table has changed.
func (p *pipeline) failed(ctx context.Context, err error) error {
	delete(p.conn.PgConn().CustomData(), limitsKey) // the server has taken them back
	if p.prepares && (p.fresh || unprepared(err) || Changed(err)) {
		if unprepared(err) {
			err = fmt.Errorf("the statements are prepared again: %w", err)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, p.conn.Close(ctx))
	}
	return p.table.explain(err)
}
