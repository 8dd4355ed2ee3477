package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
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
// The error is a [*SetupError] if no destination can use the table; the problems of single ones are in t.denied.
func (t *Table) checkAccess(ctx context.Context) (refused error) {
	able := false
	for _, v := range t.config.views() {
		view, err := t.For(v)
		if err != nil { // reported elsewhere
			continue
		}
		err = view.checkView(ctx)
		if denied, ok := errors.AsType[*SetupError](err); ok {
			t.denied[v.Name], refused = denied, cmp.Or(refused, err)
		} else if err != nil {
			return err
		}
		able = able || err == nil
	}
	if able {
		return nil
	}
	return refused
}

func (t *Table) checkView(ctx context.Context) error {
	read := t.tail.of(t, &Query{})
	clear(read.parameters)
	err := t.accepts(ctx, read.statement, read.parameters)
	// A condition that the planner cannot evaluate, so that it looks at each partition, and that no row meets.
	const never = " where pg_backend_pid() < 0"
	columns := t.mapping.state.columns()
	if t.mapping.config.Delete && err == nil {
		err = t.accepts(ctx, "delete from "+t.Quoted()+never, nil)
		columns = slices.DeleteFunc(columns, func(c Column) bool { return c == t.mapping.Relayed })
	}
	if len(columns) == 0 || err != nil {
		return err
	}
	// In place of null, a column would need a policy for reading it, too.
	set := each(columns, func(c Column) string { return c.Name + " = null" })
	return t.accepts(ctx, "update "+t.Quoted()+" set "+strings.Join(set, ", ")+never, nil)
}

// accepts returns a [*SetupError] if the server does not accept a statement, which is a read if it has parameters. It
// returns nil if the server does, or if a lock or something else that passes was in the way: the statement itself will
// show it.
func (t *Table) accepts(ctx context.Context, statement string, parameters [][]byte) error {
	l := limits{lock: writablePatience, once: true}
	rows, err := t.query(ctx, l, "explain (costs off) "+statement, parameters...)
	plan := strings.Join(firsts(rows), "\n") + "\n"
	// A rule or a policy lets the statement pass and do nothing. A partitioned table may have no partitions yet.
	nothing := parameters == nil && t.relation.Kind == "r" &&
		(!strings.Contains(plan, "pg_backend_pid") || strings.Contains(plan, " Filter: false\n"))
	switch e := server(err); {
	case err == nil && nothing:
		return t.ineffective()
	case err == nil || passing(e.Code) || Locked(err):
		return nil
	case e.Code == "":
		return fmt.Errorf("examine how rows are written: %w", err)
	default:
		return t.unwritable(e)
	}
}

// unwritable is the problem of a statement that the server accepts for no row.
func (t *Table) unwritable(e *pgconn.PgError) *SetupError {
	rows := "rows"
	if t.view.Name != "" && len(t.config.Views) > 1 { // those of the others go on
		rows += " of destination " + t.view.Name
	}
	p := problem(checkWrites, "change what the message names; a publication needs a primary key of the table, or "+
		"`alter table "+t.Quoted()+" replica identity full`", "%s cannot be read and marked: %s", rows, errtext.Line(e))
	if p.Err = e; e.Code == insufficientPrivilege {
		p.Check, p.Remedy = checkRights, grantRemedy(t.relation.Role)
	}
	return p
}
