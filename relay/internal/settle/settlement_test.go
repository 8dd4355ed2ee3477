package settle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// rowsNamed returns rows in flight with these ids.
func rowsNamed(ids ...string) (rows []*engine.Row) {
	for _, id := range ids {
		rows = append(rows, &engine.Row{Row: &outbox.Row{Position: outbox.At(0, id)}})
	}
	return rows
}

func destination(t *testing.T) *measure.Destination {
	m, err := measure.New(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Destination("default")
}

// held are the writes that are under way.
type held struct {
	mu  sync.Mutex
	all []string
}

// heldTable takes writes when a test lets it, and records which rows they are of.
type heldTable struct {
	*held
	name string
	let  chan struct{}
}

func (h *heldTable) write(ids []string) {
	if len(ids) == 0 {
		return
	}
	what := h.name + " " + strings.Join(ids, "")
	h.mu.Lock()
	h.all = append(h.all, what)
	h.mu.Unlock()
	<-h.let
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.all, what)
	h.all = slices.Delete(h.all, i, i+1)
}

func (h *heldTable) Settle(_ context.Context, rows []*outbox.Row, _ bool) (map[string]error, error) {
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID())
	}
	h.write(ids)
	return nil, nil
}

func (h *heldTable) Refuse(_ context.Context, all []outbox.Refusal) (map[string]error, error) {
	var ids []string
	for _, x := range all {
		ids = append(ids, x.ID())
	}
	h.write(ids)
	return nil, nil
}

// While a row is being written for one destination it is not written for another, neither for the first time nor again.
// One that takes long, or never ends, keeps no other destination waiting.
func TestRowIsWrittenForOneDestinationAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		writing := &held{}
		zero := &heldTable{held: writing, name: "0", let: make(chan struct{})}
		one := &heldTable{held: writing, name: "1", let: make(chan struct{})}
		results := make(chan engine.Outcome, 10)
		s := New(0, []Table{zero, one}, nil, func(int, error) {})
		to := destination(t)
		first, second := s.NewWriter(0, to, results), s.NewWriter(1, to, results)
		s.Start(t.Context())
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			got := slices.Sorted(slices.Values(writing.all))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("written at once is %q, want %q", got, want)
			}
		}
		first.Write(engine.Outcome{Rows: rowsNamed("a", "b")})
		expect("0 ab")
		refused := rowsNamed("b")
		refused[0].Refused = context.Canceled
		second.Write(engine.Outcome{Rows: append(rowsNamed("a", "c"), refused...)})
		second.Write(engine.Outcome{Rows: rowsNamed("b"), Again: true})
		expect("0 ab", "1 c")
		zero.let <- struct{}{}
		expect("1 b", "1 c")
		time.Sleep(asideAfter + time.Millisecond)
		first.Write(engine.Outcome{Rows: rowsNamed("b", "c", "d")})
		expect("0 bcd", "1 b", "1 c")
		close(zero.let)
		close(one.let)
		s.Close()
		if len(writing.all) > 0 {
			t.Errorf("%q is still written", writing.all)
		}
	})
}

// Each engine is given the outcome of its own rows, and of no others.
func TestEnginesLearnOfTheirOwnRows(t *testing.T) {
	results := []chan engine.Outcome{make(chan engine.Outcome, 1), make(chan engine.Outcome, 1)}
	s := New(1, make([]Table, 1), nil, nil)
	one, other := s.NewWriter(0, nil, results[0]), s.NewWriter(0, nil, results[1])
	o := &order{}
	for i, r := range rowsNamed("a", "b", "c", "d", "e") {
		o.add(gathered{Row: r, from: []*Writer{one, one, other, other, one}[i]})
	}
	o.deliver()
	for i, want := range []string{"a b e", "c d"} {
		var ids []string
		o := <-results[i]
		for _, r := range o.Rows {
			ids = append(ids, r.ID())
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("engine %d learns of %s", i, got)
		}
	}
}
