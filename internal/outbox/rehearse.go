package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// RehearsalTime is how long a rehearsal of several rows may take.
const RehearsalTime = 2 * time.Second

// Rehearse finds out which rows [Table.Settle] could not settle. It settles them in a transaction that is rolled back,
// so that also triggers, constraints and row security have their say, and returns why they refuse which rows, by
// identity. A row that another session keeps locked, such as the trial of another destination, is among them, with an
// error that is [Locked]. An error that is [Cancelled] asks for fewer rows: a trigger may take a second for each. A
// single row has the time until ctx ends, as its mark has, and is refused if that is not enough. With any other error
// the server takes no write at present. All rows count as possible where the role may not use PL/pgSQL.
//
// What triggers do is undone, unless they do it outside of the transaction: numbers are drawn from sequences.
func (t *Table) Rehearse(ctx context.Context, rows []*Row) (refused map[string]error, err error) {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release() // closes the connection if the transaction is still open
	statement, which := t.rehearsal()
	if t.relation.parts != nil {
		statement = strings.ReplaceAll(statement, partitionMark, t.partitionCondition())
	}
	limit := RehearsalTime
	if deadline, ok := ctx.Deadline(); ok && len(rows) == 1 {
		limit = time.Until(deadline) * 9 / 10
	}
	p := &pipeline{table: t, conn: conn.Conn()}
	p.silently("begin", nil)
	p.ownSettings()
	p.silently("select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)",
		[][]byte{milliseconds(min(freePatience, t.relation.Deadlock/2)), milliseconds(limit)})
	p.silently(t.writeLock(), nil) // before the weaker one of the select: see there
	p.batch.ExecParams(which, [][]byte{array(t.rowOID, identitiesOf(rows))}, nil, []int16{1}, nil)
	p.added = append(p.added, false)
	trial := len(p.added)
	p.silently(statement, nil)
	p.batch.ExecParams("select current_setting('outbox_relay.refused')", nil, nil, nil, nil)
	p.added = append(p.added, true)
	p.silently("rollback", nil)
	p.send(ctx)
	var found []byte
	for result := p.next(); result != nil && result.NextRow(); {
		found = bytes.Clone(result.Values()[0])
	}
	err = p.results.Close()
	switch {
	case server(err).Code == insufficientPrivilege && p.at < trial: // of the lock, and so of the write
		return nil, fmt.Errorf("rehearse marks: %w", t.explain(err))
	case Cancelled(err) && len(rows) == 1:
		return map[string]error{rows[0].Identity(): fmt.Errorf("rehearse marks: %w", err)}, nil
	case server(err).Code == insufficientPrivilege || server(err).Code == undefinedObject: // no PL/pgSQL
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("rehearse marks: %w", err)
	}
	var errs map[int][]string
	if err := json.Unmarshal(found, &errs); err != nil {
		return nil, fmt.Errorf("rehearse marks: %w", err)
	}
	refused = map[string]error{}
	var general error // is not about rows
	for n, texts := range errs {
		identity := rows[n-1].Identity()
		if texts == nil {
			refused[identity] = t.ineffective()
			continue
		}
		e := &pgconn.PgError{Severity: "ERROR", Code: texts[0], Message: texts[1], Detail: texts[2], Hint: texts[3]}
		e.Where = texts[4]
		err := fmt.Errorf("rehearse marks: %w", t.explain(e))
		refused[identity] = err
		if !Rejected(e) && !Cancelled(e) && !Locked(e) && e.Code != insufficientPrivilege {
			general = err
		}
	}
	if general != nil && len(refused) == len(rows) {
		return nil, general
	}
	return refused, nil
}

// rehearsal returns the statement of [Table.Rehearse], and the one that says for which rows it is.
func (t *Table) rehearsal() (statement, which string) {
	part := func(statement string) string {
		return strings.NewReplacer("\n", " ", "$1", "outbox_relay_rows", "$2", "null").Replace(statement)
	}
	d := t.description
	statement = d.text("rehearse.sql",
		"settle_free", part(d.text("settle_free.sql")), "settle", part(d.text("settle.sql")),
		"lock", part(d.text("lock.sql", "wait", "nowait")), "unsettled", part(d.text("unsettled.sql")))
	which = "select set_config('outbox_relay.rows', to_jsonb($1::" + d["identity_type"] + "[])::text, true)"
	return statement, which
}
