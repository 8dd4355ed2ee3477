package relay

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
	"go.opentelemetry.io/otel/metric/noop"
)

// Rows that two destinations have accepted are marked by one statement. A row that this statement does not mark,
// because one destination's mark exists already, still gets the other's mark.
func TestMarksOfTwoDestinations(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		m, err := measure.New(noop.Meter{})
		if err != nil {
			t.Fatal(err)
		}
		to := m.Destination("default")
		tables := []*simTable{s.table, s.table.also()}
		for i, id := range []string{"a", "b", "c", "d"} {
			s.table.insert(int64(i), id, "k", "t")
		}
		relayed := func(id string) {
			t.Helper()
			for i, table := range tables {
				if !table.row(id).relayed {
					t.Errorf("%s is not relayed at destination %d", id, i)
				}
			}
		}
		settle := func(first, second []string) {
			results := make(chan engine.Outcome, 4)
			views := []settle.Table{&simView{tableView: tables[0]}, &simView{tableView: tables[1]}}
			settlement := settle.New(10, views, simTogether, func(int, error) {})
			settlement.NewWriter(0, to, results).Write(engine.Outcome{Rows: rowsNamed(first...)})
			settlement.NewWriter(1, to, results).Write(engine.Outcome{Rows: rowsNamed(second...)})
			settlement.Start(t.Context())
			settlement.Close()
			close(results)
			learnt := 0
			for o := range results {
				learnt += len(o.Rows)
			}
			if learnt != len(first)+len(second) {
				t.Errorf("the engines learn of %d rows", learnt)
			}
		}
		settle([]string{"a", "b"}, []string{"b", "a"})
		relayed("a")
		relayed("b")
		if first, second := tables[0].settleCount(), tables[1].settleCount(); first != 1 || second != 1 {
			t.Errorf("%d and %d statements", first, second)
		}
		settle([]string{"c", "d"}, []string{"c"})
		relayed("c")
		if tables[1].row("d").relayed {
			t.Error("a row is done at a destination that has not accepted it")
		}
		settle([]string{"d"}, []string{"d"})
		relayed("d")
	})
}

// rowsNamed returns rows in flight with these ids.
func rowsNamed(ids ...string) (rows []*engine.Row) {
	for _, id := range ids {
		rows = append(rows, &engine.Row{Row: &outbox.Row{Position: outbox.At(0, id)}})
	}
	return rows
}
