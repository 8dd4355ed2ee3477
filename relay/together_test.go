package relay

import (
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
)

// What two destinations have accepted of the same rows is marked by one statement. A row that this does not mark, since one of them had its
// mark already, gets the other's all the same.
func TestMarksOfTwoDestinations(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		m, err := newMetrics(noop.Meter{}, nil)
		if err != nil {
			t.Fatal(err)
		}
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
		one := &settler{database: &database{logger: slog.New(slog.DiscardHandler)}, metrics: m, limit: statementTimeout,
			join: simTogether, joints: map[uint64]joint{}}
		settle := func(first, second []string) {
			settlement, results := newSettlement(10, []Table{&simView{Table: tables[0]}, &simView{Table: tables[1]}}, make([]func(string) bool, 2)), make(chan outcome, 2)
			settlement.write(&writer{result: results}, outcome{accepted: rowsNamed(first...)})
			settlement.write(&writer{state: 1, result: results}, outcome{accepted: rowsNamed(second...)})
			settlement.close()
			one.run(t.Context(), settlement)
			if a, b := <-results, <-results; len(a.accepted) != len(first) || len(b.accepted) != len(second) || a.took == 0 || b.took == 0 {
				t.Errorf("the engines learn %+v and %+v", a, b)
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
