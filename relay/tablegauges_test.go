package relay

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

func openTable(t *testing.T, s *pgtest.Schema) *outbox.Table {
	t.Helper()
	table, err := outbox.Open(t.Context(), s.Pool, outbox.Config{Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// alone returns the table as its only destination sees it.
func alone(table *outbox.Table) []*outbox.Table { return []*outbox.Table{table} }

// A scrape while the last answer is fresh gets that answer, and a scraper that disconnects does not spoil it for the others.
func TestTableIsMeasuredOnceForAll(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	table := openTable(t, s)
	var g tableGauges
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := g.measure(gone, table, alone); err != nil {
		t.Fatal(err)
	}
	g.views[0].due = time.Now().Add(time.Hour) // the answer stays fresh
	s.Exec(t, pgtest.Insert, "t", `{}`)
	var scrapers sync.WaitGroup
	for range 200 {
		scrapers.Go(func() {
			if counts, _, err := g.measure(t.Context(), table, alone); err != nil || *counts[0].Pending != 0 {
				t.Errorf("%+v, %v", counts, err)
			}
		})
	}
	scrapers.Wait()
	g.views[0].due = time.Now()
	if counts, _, err := g.measure(t.Context(), table, alone); err != nil || *counts[0].Pending != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// A measurement that fails is left out, and the database is not queried again by each scrape.
func TestTableThatCannotBeMeasuredRests(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	table := openTable(t, s)
	var g tableGauges
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "lock table outbox_messages in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if counts, size, err := g.measure(t.Context(), table, alone); err == nil || counts[0].Pending != nil || size != nil {
		t.Errorf("%+v, %+v, %v", counts, size, err)
	}
	if rest := g.views[0].due.Sub(began); rest < 10*countTimeout {
		t.Errorf("the database is asked again after %v", rest)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if counts, size, err := g.measure(t.Context(), table, alone); err == nil || counts[0].Pending != nil || size != nil {
		t.Errorf("asked again at once: %+v, %+v, %v", counts, size, err)
	}
}

// Each destination has its own counts. Together they cost one query a second, however many destinations there are. The size
// includes all partitions.
func TestTableIsMeasuredForEachDestination(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	for range 3 {
		s.Exec(t, pgtest.Insert, "orders", `{}`)
	}
	s.Exec(t, pgtest.Insert, "audit", `{}`)
	s.Exec(t, pgtest.Insert, "else", `{}`)
	destinations := []*Destination{{Name: "orders", Topics: []string{"orders"}}, {Name: "audit", Topics: []string{"audit"}}, nowhere()}
	r := &Relay{plan: outbox.Config{Views: viewsOf(destinations)}}
	g := &r.measured
	began := time.Now()
	counts, size, err := g.measure(t.Context(), openTable(t, s), r.views)
	if err != nil || len(counts) != 3 || *counts[0].Pending != 3 || *counts[1].Pending != 1 || *counts[2].Pending != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
	for _, v := range g.views {
		if v.due.Sub(began) < 3*countEvery {
			t.Errorf("asked again after %v", v.due.Sub(began))
		}
	}
	if size == nil || size.Bytes == 0 {
		t.Errorf("the size is %+v", size)
	}
}
