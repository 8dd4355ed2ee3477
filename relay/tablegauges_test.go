package relay

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
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

// slowViews are views whose queries take a time each. The counts are the second of the query. Those for which stuck is set are never
// answered.
func slowViews(n int, takes time.Duration, stuck *[100]bool) *tableGauges {
	g, began := &tableGauges{}, time.Now()
	for i := range n {
		g.views = append(g.views, &measuredView{count: func(ctx context.Context) (outbox.Counts, error) {
			took := takes
			if stuck[i] {
				took = time.Hour
			}
			select {
			case <-time.After(took):
				return outbox.Counts{Pending: new(int64(time.Since(began) / time.Second))}, nil
			case <-ctx.Done():
				return outbox.Counts{}, ctx.Err()
			}
		}})
	}
	return g
}

// Where the queries of many destinations take more time together than a scrape has, no value disappears, and none becomes old. The
// values of a destination that cannot be measured any more disappear all the same, and come back when it can be.
func TestManyDestinationsAreMeasuredInTurn(t *testing.T) {
	for _, c := range []struct {
		views int
		takes time.Duration
		every time.Duration // between scrapes
	}{
		{1, 100 * time.Millisecond, 15 * time.Second},
		{2, 900 * time.Millisecond, 15 * time.Second},
		{3, 700 * time.Millisecond, 5 * time.Second},
		{20, 150 * time.Millisecond, 15 * time.Second},
		{100, 30 * time.Millisecond, 15 * time.Second},
		{100, 90 * time.Millisecond, 30 * time.Second / 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			var stuck [100]bool
			g, began := slowViews(c.views, c.takes, &stuck), time.Now()
			oldest := time.Duration(c.views)*countEvery + time.Minute
			last := c.views - 1
			scrape := func(known bool) {
				time.Sleep(c.every)
				g.count(t.Context())
				for i, v := range g.views {
					counts := v.known()
					if missing := counts.Pending == nil; missing != (i == last && !known) {
						t.Errorf("%+v: after %v the value of destination %d is missing: %t", c, time.Since(began), i, missing)
					} else if !missing {
						if age := time.Since(began) - time.Duration(*counts.Pending)*time.Second; age > oldest {
							t.Errorf("%+v: the value of destination %d is %v old", c, i, age)
						}
					}
				}
			}
			long := time.Duration(c.views)*countEvery*2 + 2*time.Minute
			for time.Since(began) < long { // each is measured once
				time.Sleep(c.every)
				g.count(t.Context())
			}
			for began := time.Now(); time.Since(began) < long; {
				scrape(true)
			}
			stuck[last] = true
			for began := time.Now(); time.Since(began) < long; {
				time.Sleep(c.every)
				g.count(t.Context())
			}
			for began := time.Now(); time.Since(began) < long; {
				scrape(false)
			}
			stuck[last] = false
			for began := time.Now(); time.Since(began) < long; {
				time.Sleep(c.every)
				g.count(t.Context())
			}
			for began := time.Now(); time.Since(began) < long; {
				scrape(true)
			}
		})
	}
}

// Values that no scrape has had the time to measure again are not given for ever.
func TestOldValuesAreNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck [100]bool
		g := slowViews(3, time.Millisecond, &stuck)
		g.count(t.Context())
		for i := range g.views {
			stuck[i] = i < 2
		}
		g.views[0].due, g.views[1].due = time.Now(), time.Now()
		for range 100 {
			time.Sleep(30 * time.Second)
			g.views[0].due, g.views[1].due = time.Time{}, time.Time{} // they always go before it
			g.count(t.Context())
		}
		if counts := g.views[2].known(); counts.Pending != nil {
			t.Errorf("%d is given after an hour", *counts.Pending)
		}
	})
}
