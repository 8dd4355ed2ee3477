package relay

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// rowsNamed returns rows in flight with these ids.
func rowsNamed(ids ...string) (rows []*row) {
	for _, id := range ids {
		rows = append(rows, &row{Row: &outbox.Row{Position: outbox.At(0, id)}})
	}
	return rows
}

func idsOfOrders(job []*order) (ids []string) {
	for _, w := range job {
		for _, r := range w.accepted {
			ids = append(ids, r.ID())
		}
		for _, x := range w.refused {
			ids = append(ids, x.row.ID())
		}
	}
	return ids
}

// While one settler has a row the other gets no outcome of the same row, for whichever destination, be it for the first time or again.
func TestRowIsWithOneSettler(t *testing.T) {
	s := newSettlement(0, make([]Table, 2), make([]func(string) bool, 2))
	zero, one := &writer{}, &writer{state: 1}
	s.write(zero, outcome{accepted: rowsNamed("a", "b")})
	first := s.take()
	s.write(one, outcome{accepted: rowsNamed("a", "c"), refused: []refusal{{row: rowsNamed("b")[0]}}})
	s.write(one, outcome{accepted: rowsNamed("b"), again: againLocked})
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"c"}) {
		t.Errorf("beside a and b the other settler writes %q", got)
	}
	s.done(first)
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"b"}) {
		t.Errorf("what is tried again is %q", got)
	}
	s.write(zero, outcome{accepted: rowsNamed("d")})
	if got := idsOfOrders(s.take()); !slices.Equal(got, []string{"d", "a"}) {
		t.Errorf("beside b a settler writes %q", got)
	}
}

// Each engine learns what became of its own rows, and of no others.
func TestEnginesLearnOfTheirOwnRows(t *testing.T) {
	results := []chan outcome{make(chan outcome, 1), make(chan outcome, 1)}
	one, other := &writer{result: results[0]}, &writer{result: results[1]}
	s := newSettlement(1, make([]Table, 1), nil)
	s.write(one, outcome{accepted: rowsNamed("a", "b")})
	s.write(other, outcome{accepted: rowsNamed("c"), refused: []refusal{{row: rowsNamed("d")[0]}}})
	s.write(one, outcome{accepted: rowsNamed("e")})
	job := s.take()
	if len(job) != 1 {
		t.Fatalf("%d orders for one set of columns", len(job))
	}
	w := job[0]
	w.locked, w.rejected, w.written = map[string]bool{"b": true, "c": true}, map[string]bool{"e": true}, map[string]bool{"d": true}
	w.tell()
	for i, want := range []struct{ accepted, locked, rejected, written int }{{3, 1, 1, 0}, {1, 1, 0, 1}} {
		o := <-results[i]
		if len(o.accepted) != want.accepted || len(o.locked) != want.locked || len(o.rejected) != want.rejected ||
			len(o.written) != want.written {
			t.Errorf("engine %d learns %+v", i, o)
		}
	}
}

// crowdedTable counts how many write at a time.
type crowdedTable struct {
	*simTable
	now, most atomic.Int64
}

func (c *crowdedTable) Settle(ctx context.Context, rows []*outbox.Row) error {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	c.most.Store(max(c.most.Load(), n))
	return c.simTable.Settle(ctx, rows)
}

// However many destinations there are, two settlers write, and what belongs to several destinations goes into the same statements.
func TestSettlersAreTheProcesss(t *testing.T) {
	simulate(t, func(t *testing.T, s *sim) {
		const destinations, rows = 5, 200
		s.destinations = nil
		for i := range destinations {
			s.destinations = append(s.destinations, s.destination(fmt.Sprint("d", i), publishertest.NewBroker(), fmt.Sprint("t", i)))
		}
		for i := range destinations * rows {
			s.table.insert(int64(i+1), fmt.Sprint("r", i), fmt.Sprint("k", i), fmt.Sprint("t", i%destinations))
		}
		s.limits = Limits{Batch: 100, Rows: 10_000, Bytes: 1 << 20}
		s.table.setTook(20 * time.Millisecond)
		table := &crowdedTable{simTable: s.table}
		cancel, done := s.startOn(table)
		s.table.drained(t, time.Minute)
		cancel()
		<-done
		if most := table.most.Load(); most > settlers {
			t.Errorf("%d write at a time", most)
		}
		if n := s.table.settleCount(); n > 2*rows/s.limits.Batch+destinations {
			t.Errorf("%d statements mark %d rows of each of %d destinations", n, rows, destinations)
		}
	})
}
