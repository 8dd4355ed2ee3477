package outbox

import (
	"cmp"
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

// checkAccess asks the server, before anything is published, whether it would accept reads of rows, and updates of the
// columns that mark and refuse rows, or deletes. It plans the statements as this role and begins their execution, which
// reads and locks no row. So it finds what makes them fail for each row: PostgreSQL checks rights in
// ExecCheckPermissions, and in CheckValidResultRel replica identity, publications with row filters or column lists; the
// rewriter rules, the planner generated columns. It does so for each partition. What a trigger, a constraint or a
// policy does to single rows it cannot know; [Table.Rehearse] does.
//
// The problem is nil if one of several destinations can use the table; the problems of the others are in t.denied.
func (t *Table) checkAccess(ctx context.Context, conn *pgx.Conn) (problem *SetupError, err error) {
	able := false
	for _, v := range t.config.views() {
		view, failure := t.For(v)
		if failure != nil { // reported elsewhere
			continue
		}
		found, err := view.checkView(ctx, conn)
		if err != nil {
			return nil, err
		}
		if able = able || found == nil; found != nil {
			t.denied[v.Name], problem = found, cmp.Or(problem, found)
		}
	}
	if able {
		return nil, nil
	}
	return problem, nil
}

func (t *Table) checkView(ctx context.Context, conn *pgx.Conn) (*SetupError, error) {
	statements := []string{t.tail[tailAll]}
	if !t.config.Looks {
		statements = append(statements, t.writes()...)
	}
	for i, statement := range statements {
		if problem, err := t.accepts(ctx, conn, statement, i > 0); problem != nil || err != nil {
			return problem, err
		}
	}
	return nil, nil
}

// writes returns statements that write what marks and refusals write, and meet no row: the planner cannot evaluate
// their condition, so that it looks at each partition.
func (t *Table) writes() (all []string) {
	const never = " where pg_backend_pid() < 0"
	m := t.mapping
	columns := []Column{m.Relayed, m.Attempt, m.Failed, m.LastError, m.Updated}
	if m.delete {
		all, columns = append(all, "delete from "+t.Quoted()+never), columns[1:]
	}
	var set []string
	for _, c := range columns {
		if c.Has() {
			set = append(set, c.Name+" = null") // a column there would need a policy for reading it, too
		}
	}
	if set != nil {
		all = append(all, "update "+t.Quoted()+" set "+strings.Join(set, ", ")+never)
	}
	return all
}

// accepts returns why the server does not accept a statement, nil if it does, or if a lock or something else that
// passes was in the way: the statement itself will show it.
func (t *Table) accepts(ctx context.Context, conn *pgx.Conn, statement string, write bool) (*SetupError, error) {
	p := &pipeline{table: t, conn: conn}
	p.ownSettings()
	p.silently("select set_config('lock_timeout', $1, true)", [][]byte{milliseconds(writablePatience)})
	var parameters [][]byte
	if !write {
		parameters = make([][]byte, 3) // those of tail.sql, null
	}
	p.batch.ExecParams("explain (costs off) "+statement, parameters, nil, nil, nil)
	p.added = append(p.added, true)
	p.send(ctx)
	plan := ""
	for result := p.next(); result != nil && result.NextRow(); {
		plan += string(result.Values()[0]) + "\n"
	}
	err := p.results.Close()
	// A rule or a policy lets the statement pass and do nothing. A partitioned table may have no partitions yet.
	nothing := write && t.relation.Kind == "r" &&
		(!strings.Contains(plan, "pg_backend_pid") || strings.Contains(plan, " Filter: false\n"))
	switch e := server(err); {
	case err == nil && nothing:
		none := t.noEffect([]string{""}).(*NoEffectError).SetupError //nolint:errorlint // it has this type
		return &none, nil
	case err == nil || passing(e.Code) || Locked(err):
		return nil, nil
	case e.Code == "":
		return nil, fmt.Errorf("examine how rows are written: %w", err)
	default:
		return t.unwritable(e, write), nil
	}
}

// unwritable is the problem of a statement that the server accepts for no row.
func (t *Table) unwritable(e *pgconn.PgError, write bool) *SetupError {
	what := "read"
	if write {
		what = "marked or refused, so none is published"
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
