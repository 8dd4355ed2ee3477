package settle

import (
	"maps"
	"slices"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// rowsNamed returns rows in flight with these ids.
func rowsNamed(ids ...string) (rows []*dispatch.Row) {
	for _, id := range ids {
		rows = append(rows, &dispatch.Row{Row: &outbox.Row{Position: outbox.At(0, id)}})
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
	s := New(0, make([]Table, 2), make([]func(string) bool, 2), nil, nil)
	zero, one := s.NewWriter(0, dispatch.Limits{}, nil, nil), s.NewWriter(1, dispatch.Limits{}, nil, nil)
	zero.Write(dispatch.Outcome{Accepted: rowsNamed("a", "b")})
	first := s.take()
	one.Write(dispatch.Outcome{Accepted: rowsNamed("a", "c"), Refused: []dispatch.Refusal{{Row: rowsNamed("b")[0]}}})
	one.Write(dispatch.Outcome{Accepted: rowsNamed("b"), Again: dispatch.AgainLocked})
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"c"}) {
		t.Errorf("beside a and b the other settler writes %q", got)
	}
	s.done(first)
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"b"}) {
		t.Errorf("what is tried again is %q", got)
	}
	zero.Write(dispatch.Outcome{Accepted: rowsNamed("d")})
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"d", "a"}) {
		t.Errorf("beside b a settler writes %q", got)
	}
}

// Each engine is given the outcome of its own rows, and of no others.
func TestEnginesLearnOfTheirOwnRows(t *testing.T) {
	results := []chan dispatch.Outcome{make(chan dispatch.Outcome, 1), make(chan dispatch.Outcome, 1)}
	s := New(1, make([]Table, 1), nil, nil, nil)
	one, other := s.NewWriter(0, dispatch.Limits{}, nil, results[0]), s.NewWriter(0, dispatch.Limits{}, nil, results[1])
	one.Write(dispatch.Outcome{Accepted: rowsNamed("a", "b")})
	other.Write(dispatch.Outcome{Accepted: rowsNamed("c"), Refused: []dispatch.Refusal{{Row: rowsNamed("d")[0]}}})
	one.Write(dispatch.Outcome{Accepted: rowsNamed("e")})
	job := s.take()
	if len(job) != 1 {
		t.Fatalf("%d orders for one set of columns", len(job))
	}
	w := job[0]
	w.Effects = map[string]dispatch.Effect{"b": dispatch.Unfree, "c": dispatch.Unfree, "e": dispatch.Unwritable, "d": dispatch.Written}
	w.deliver()
	for i, want := range []map[string]dispatch.Effect{
		{"b": dispatch.Unfree, "e": dispatch.Unwritable},
		{"c": dispatch.Unfree, "d": dispatch.Written},
	} {
		o := <-results[i]
		if len(o.Accepted) != []int{3, 1}[i] || !maps.Equal(o.Effects, want) {
			t.Errorf("engine %d learns %+v", i, o)
		}
	}
}
