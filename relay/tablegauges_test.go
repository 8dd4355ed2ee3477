package relay

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/outbox"
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

// Whoever scrapes while the last answer is fresh gets that one, and a scraper that goes away spoils it for nobody.
func TestTableIsMeasuredOnceForAll(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	table := openTable(t, s)
	g := tableGauges{every: time.Hour}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := g.measure(gone, table); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, pgtest.Insert, "t", `{}`)
	var scrapers sync.WaitGroup
	for range 200 {
		scrapers.Go(func() {
			if counts, err := g.measure(t.Context(), table); err != nil || *counts.Pending != 0 {
				t.Errorf("%+v: %v", counts, err)
			}
		})
	}
	scrapers.Wait()
	g.due = time.Now()
	if counts, err := g.measure(t.Context(), table); err != nil || *counts.Pending != 1 {
		t.Errorf("%+v: %v", counts, err)
	}
}

// While an answer fails it is left out, and the database is not asked again by each scrape.
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
	if counts, err := g.measure(t.Context(), table); err == nil || counts.Pending != nil {
		t.Errorf("%+v: %v", counts, err)
	}
	if rest := g.due.Sub(began); rest < 10*countTimeout {
		t.Errorf("the database is asked again after %v", rest)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if counts, err := g.measure(t.Context(), table); err == nil || counts.Pending != nil {
		t.Errorf("asked again at once: %+v: %v", counts, err)
	}
}
