package settle

import (
	"maps"
	"slices"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// rowsNamed returns rows in flight with these ids.
func rowsNamed(ids ...string) (rows []*engine.Row) {
	for _, id := range ids {
		rows = append(rows, &engine.Row{Row: &outbox.Row{Position: outbox.At(0, id)}})
	}
	return rows
}

func idsOfOrders(job []*order) (ids []string) {
	for _, w := range job {
		for _, r := range w.Accepted {
			ids = append(ids, r.ID())
		}
		for _, x := range w.Refused {
			ids = append(ids, x.Row.ID())
		}
	}
	return ids
}

// While one settler has a row, the other gets no outcome of the same row, for any destination, neither for the first
// time nor again.
func TestRowIsWithOneSettler(t *testing.T) {
	s := New(0, make([]Table, 2), nil, nil)
	zero, one := s.NewWriter(0, nil, nil), s.NewWriter(1, nil, nil)
	zero.Write(engine.Outcome{Accepted: rowsNamed("a", "b")})
	first := s.take()
	one.Write(engine.Outcome{Accepted: rowsNamed("a", "c"), Refused: []engine.Refusal{{Row: rowsNamed("b")[0]}}})
	one.Write(engine.Outcome{Accepted: rowsNamed("b"), Again: true})
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"c"}) {
		t.Errorf("beside a and b the other settler writes %q", got)
	}
	s.done(first)
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"b"}) {
		t.Errorf("what is tried again is %q", got)
	}
	zero.Write(engine.Outcome{Accepted: rowsNamed("d")})
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"d", "a"}) {
		t.Errorf("beside b a settler writes %q", got)
	}
}

// Each engine is given the outcome of its own rows, and of no others.
func TestEnginesLearnOfTheirOwnRows(t *testing.T) {
	results := []chan engine.Outcome{make(chan engine.Outcome, 1), make(chan engine.Outcome, 1)}
	s := New(1, make([]Table, 1), nil, nil)
	one, other := s.NewWriter(0, nil, results[0]), s.NewWriter(0, nil, results[1])
	one.Write(engine.Outcome{Accepted: rowsNamed("a", "b")})
	other.Write(engine.Outcome{Accepted: rowsNamed("c"), Refused: []engine.Refusal{{Row: rowsNamed("d")[0]}}})
	one.Write(engine.Outcome{Accepted: rowsNamed("e")})
	job := s.take()
	if len(job) != 1 {
		t.Fatalf("%d orders for one set of columns", len(job))
	}
	w := job[0]
	w.Effects = map[string]engine.Effect{"b": engine.Unfree, "c": engine.Unfree, "e": engine.Unwritable, "d": engine.Written}
	w.deliver()
	for i, want := range []map[string]engine.Effect{
		{"b": engine.Unfree, "e": engine.Unwritable},
		{"c": engine.Unfree, "d": engine.Written},
	} {
		o := <-results[i]
		if len(o.Accepted) != []int{3, 1}[i] || !maps.Equal(o.Effects, want) {
			t.Errorf("engine %d learns %+v", i, o)
		}
	}
}
