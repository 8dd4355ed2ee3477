package outbox

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/sql"
)

// writablePatience is how long the examination of the writes waits for a migration's lock on the table.
const writablePatience = 200 * time.Millisecond

// parameter is a parameter of a statement.
var parameter = regexp.MustCompile(`\$[0-9]+`)

// checkWrites asks the server, before anything is published, whether it would accept the statements that mark and
// refuse rows: it plans each of them as this role and begins its execution, which reads and locks no row. So it finds
// what makes the statement fail for each row: PostgreSQL checks rights in ExecCheckPermissions, and in
// CheckValidResultRel replica identity, publications with row filters or column lists, foreign tables and views; the
// rewriter rules, the planner generated columns. It does so for each partition. What a trigger, a constraint or a
// policy does to single rows it cannot know.
//
// marks is the problem that keeps rows from being marked or deleted, refusals one that keeps only refusals from being
// written.
func (t *Table) checkWrites(ctx context.Context, conn *pgx.Conn) (marks, refusals *SetupError, err error) {
	for _, v := range t.config.views() {
		view, failure := t.For(v)
		if failure != nil { // reported elsewhere
			continue
		}
		if marks, err = view.checkMarks(ctx, conn); marks != nil || err != nil {
			return marks, nil, err
		}
		if refusals == nil && view.writesRefusals() {
			if refusals, _, err = view.accepts(ctx, conn, view.description.text("refuse.sql"), true); err != nil {
				return nil, nil, err
			}
		}
	}
	return nil, refusals, nil
}

func (t *Table) checkMarks(ctx context.Context, conn *pgx.Conn) (*SetupError, error) {
	// A condition that the planner cannot evaluate, and that no row meets.
	const never = "pg_backend_pid() < 0"
	any := "delete from " + t.relation.table.Quoted() + " where " + never
	if !t.mapping.delete {
		any = "update " + t.relation.table.Quoted() + " set " + t.description["marks"] + " where " + never
	}
	problem, plan, err := t.accepts(ctx, conn, any, false)
	if problem != nil || err != nil {
		return problem, err
	}
	// A rule or a policy lets the statement pass and do nothing. A partitioned table may have no partitions yet.
	nothing := !strings.Contains(plan, "pg_backend_pid") || strings.Contains(plan, " Filter: false\n")
	if plan != "" && t.relation.kind == "r" && nothing {
		none := t.noEffect([]string{""}).(*NoEffectError).SetupError //nolint:errorlint // it has this type
		return &none, nil
	}
	for _, statement := range []string{t.settleText(""), t.settleText("_free")} {
		if problem, _, err = t.accepts(ctx, conn, statement, false); problem != nil || err != nil {
			return problem, err
		}
	}
	return nil, nil
}

// accepts returns why the server does not accept a statement, or its plan. Without either, a lock or something else
// that passes was in the way: the statement itself will show it.
func (t *Table) accepts(
	ctx context.Context, conn *pgx.Conn, statement string, refusal bool,
) (problem *SetupError, plan string, err error) {
	plan, err = t.plan(ctx, conn, statement)
	switch e := server(err); {
	case err == nil:
		return nil, plan, nil
	case e.Code == "":
		return nil, "", fmt.Errorf("examine how rows are written: %w", err)
	case passing(e.Code) || Locked(err):
		return nil, "", nil
	default:
		return t.unwritable(e, refusal), "", nil
	}
}

// plan returns the plan of a statement without values.
func (t *Table) plan(ctx context.Context, conn *pgx.Conn, statement string) (string, error) {
	p := &pipeline{table: t, conn: conn}
	p.ownSettings()
	p.silently("select set_config('lock_timeout', $1, true)", [][]byte{milliseconds(writablePatience)})
	p.batch.ExecParams("explain (costs off) "+parameter.ReplaceAllString(statement, "null"), nil, nil, nil, nil)
	p.added = append(p.added, true)
	p.send(ctx)
	var text strings.Builder
	for result := p.next(); result != nil && result.NextRow(); {
		text.WriteString(string(result.Values()[0]) + "\n")
	}
	return text.String(), p.results.Close()
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
		problem.Check, problem.Remedy = checkRights, grantRemedy(t.relation.role)
	case e.Routine == "CheckCmdReplicaIdentity":
		problem.Remedy = "give the table a primary key, or a replica identity that covers the publication's row filter " +
			"(alter table " +
			t.relation.table.Quoted() + " replica identity full), or leave the table out of the publication"
	default:
		problem.Remedy = "change what the message names; `explain` of the same statement as role " +
			sql.Quote(t.relation.role) + " shows when it is right"
	}
	return problem
}
