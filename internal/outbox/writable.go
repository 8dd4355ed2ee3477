package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/sql"
)

// writablePatience is how long the examination of the writes waits for a migration's lock on the table.
const writablePatience = 200 * time.Millisecond

// checkWrites asks the server, before anything is published, whether it would accept updates of the columns that mark
// and refuse rows, or deletes: it plans such a write as this role and begins its execution, which reads and locks no
// row. So it finds what makes the write fail for each row: PostgreSQL checks rights in ExecCheckPermissions, and in
// CheckValidResultRel replica identity, publications with row filters or column lists, foreign tables and views; the
// rewriter rules, the planner generated columns. It does so for each partition. What a trigger, a constraint or a
// policy does to single rows it cannot know; [Table.Rehearse] does.
//
// marks is the problem that keeps rows from being marked or deleted, refusals one that keeps only refusals from being
// written.
func (t *Table) checkWrites(ctx context.Context, conn *pgx.Conn) (marks, refusals *SetupError, err error) {
	for _, v := range t.config.views() {
		view, failure := t.For(v)
		if failure != nil { // reported elsewhere
			continue
		}
		m := view.mapping
		if marks, err = view.accepts(ctx, conn, false, m.Relayed); marks != nil || err != nil {
			return marks, nil, err
		}
		if refusals == nil && view.writesRefusals() {
			if refusals, err = view.accepts(ctx, conn, true, m.Attempt, m.Failed, m.LastError, m.Updated); err != nil {
				return nil, nil, err
			}
		}
	}
	return nil, refusals, nil
}

// accepts returns why the server accepts no write of columns, nil if it does, or if a lock or something else that
// passes was in the way: the statement itself will show it.
func (t *Table) accepts(ctx context.Context, conn *pgx.Conn, refusal bool, columns ...Column) (*SetupError, error) {
	// A condition that the planner cannot evaluate, so that it looks at each partition, and that no row meets.
	const never = " where pg_backend_pid() < 0"
	statement := "explain (costs off) delete from " + t.Quoted() + never
	if refusal || !t.mapping.delete {
		var set []string
		for _, c := range columns {
			if c.Has() {
				set = append(set, c.Name+" = null") // a column there would need a policy for reading it, too
			}
		}
		statement = "explain (costs off) update " + t.Quoted() + " set " + strings.Join(set, ", ") + never
	}
	p := &pipeline{table: t, conn: conn}
	p.ownSettings()
	p.silently("select set_config('lock_timeout', $1, true)", [][]byte{milliseconds(writablePatience)})
	p.batch.ExecParams(statement, nil, nil, nil, nil)
	p.added = append(p.added, true)
	p.send(ctx)
	plan := ""
	for result := p.next(); result != nil && result.NextRow(); {
		plan += string(result.Values()[0]) + "\n"
	}
	err := p.results.Close()
	// A rule or a policy lets the statement pass and do nothing. A partitioned table may have no partitions yet.
	nothing := t.relation.Kind == "r" &&
		(!strings.Contains(plan, "pg_backend_pid") || strings.Contains(plan, " Filter: false\n"))
	switch e := server(err); {
	case err == nil && nothing && !refusal:
		none := t.noEffect([]string{""}).(*NoEffectError).SetupError //nolint:errorlint // it has this type
		return &none, nil
	case err == nil || passing(e.Code) || Locked(err):
		return nil, nil
	case e.Code == "":
		return nil, fmt.Errorf("examine how rows are written: %w", err)
	default:
		return t.unwritable(e, refusal), nil
	}
}

// unwritable is the problem of a write that the server accepts for no row.
func (t *Table) unwritable(e *pgconn.PgError, refusal bool) *SetupError {
	what := "marked as relayed, so none is published"
	switch {
	case refusal:
		what = "written when the broker refuses them"
	case t.mapping.delete:
		what = "deleted, so none is published"
	}
	problem := problem(checkWrites, "", "rows cannot be %s: %s", what, errtext.Line(e))
	problem.Err = e
	switch {
	case e.Code == insufficientPrivilege:
		problem.Check, problem.Remedy = checkRights, grantRemedy(t.relation.Role)
	case e.Routine == "CheckCmdReplicaIdentity":
		problem.Remedy = "give the table a primary key, or a replica identity that covers the publication's row " +
			"filter (alter table " +
			t.relation.table.Quoted() + " replica identity full), or leave the table out of the publication"
	default:
		problem.Remedy = "change what the message names; `explain` of the same statement as role " +
			sql.Quote(t.relation.Role) + " shows when it is right"
	}
	return problem
}
