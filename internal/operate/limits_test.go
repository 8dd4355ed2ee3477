package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// A read of rows in order is not JIT-compiled, however expensive the planner considers the plans that are not wanted:
// compiling takes a second.
func TestLooksAreNotCompiled(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table rows (n integer); insert into rows select generate_series(1, 10)",
		pgx.QueryExecModeSimpleProtocol)
	explain := func(l limits) (plan string) {
		t.Helper()
		err := (&Outbox{Pool: s.Pool}).within(t.Context(), l, func(tx pgx.Tx) error {
			rows, err := tx.Query(t.Context(),
				"explain (analyze) select n, count(*) from (select n from rows order by n limit 5) r group by n")
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			plan = strings.Join(lines, "\n")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	if plan := explain(limits{statement: time.Minute, inOrder: true}); strings.Contains(plan, "JIT:") {
		t.Error(plan)
	}
}
