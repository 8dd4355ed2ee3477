package outbox

import (
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
	// The lock for writing comes before the weaker one of the trial: see there.
	l := limits{lock: freePatience, once: true, first: t.writeLock()}
	if _, ok := ctx.Deadline(); !ok || len(rows) > 1 {
		l.time = RehearsalTime
	}
	d := t.description
	statement := strings.NewReplacer("$1", "outbox_relay_rows", "$2", "null").Replace(d.text("rehearse.sql"))
	which := "select set_config('outbox_relay.rows', to_jsonb($1::" + d["identity_type"] + "[])::text, true)"
	results, err := t.send(ctx, l, // the pool closes a connection whose transaction is still open
		request{statement: "begin"},
		request{statement: which, parameters: [][]byte{array(t.rowOID, identitiesOf(rows))}},
		request{statement: statement},
		request{statement: "select current_setting('outbox_relay.refused')"},
		request{statement: "rollback"})
	switch {
	case server(err).Code == insufficientPrivilege && len(results) == 0: // of the lock, and so of the write
		return nil, fmt.Errorf("rehearse marks: %w", err)
	case Cancelled(err) && len(rows) == 1:
		return map[string]error{rows[0].Identity(): fmt.Errorf("rehearse marks: %w", err)}, nil
	case server(err).Code == insufficientPrivilege || server(err).Code == undefinedObject: // no PL/pgSQL
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("rehearse marks: %w", err)
	}
	var errs map[int]*pgconn.PgError
	if err := json.Unmarshal(results[3].Rows[0][0], &errs); err != nil {
		return nil, fmt.Errorf("rehearse marks: %w", err)
	}
	refused = map[string]error{}
	var general error // is not about rows
	for n, e := range errs {
		identity := rows[n-1].Identity()
		if e == nil {
			refused[identity] = t.ineffective()
			continue
		}
		err := fmt.Errorf("rehearse marks: %w", e)
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
