package operate

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// reportOf asks a counter.
func reportOf(ctx context.Context, c *Counter, o *Outbox) (Report, error) {
	var r Report
	err := c.Report(ctx, o.Views[0].Table, func() *Outbox { return o }, &r)
	return r, err
}

// Who asks while the last answer is fresh gets that answer, and a scraper that disconnects does not spoil it for the others.
func TestTableIsMeasuredOnceForAll(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	o, c := open(t, s), &Counter{}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if r, err := reportOf(gone, c, o); err != nil || r.Size == nil || r.Size.Bytes == 0 || r.Ownership == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	c.parts[0].due = time.Now().Add(time.Hour) // the answer stays fresh
	s.Exec(t, pgtest.Insert, "t", `{}`)
	var scrapers sync.WaitGroup
	for range 200 {
		scrapers.Go(func() {
			if r, err := reportOf(t.Context(), c, o); err != nil || *r.Destinations[0].Due != 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	scrapers.Wait()
	c.parts[0].due = time.Now()
	if r, err := reportOf(t.Context(), c, o); err != nil || *r.Destinations[0].Due != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A measurement that fails is left out, and the database is not queried again by each scrape.
func TestTableThatCannotBeMeasuredRests(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	o, c := open(t, s), &Counter{}
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "lock table outbox_messages in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	unknown := func(r Report) bool {
		return r.Destinations[0].Due == nil && r.Destinations[0].OldestAgeSeconds == nil && len(r.Problems) > 0
	}
	if r, err := reportOf(t.Context(), c, o); err != nil || !unknown(r) {
		t.Errorf("%+v, %v", r, err)
	}
	if rest := c.parts[0].due.Sub(began); rest < 10*countTimeout {
		t.Errorf("the database is asked again after %v", rest)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := reportOf(t.Context(), c, o); err != nil || !unknown(r) {
		t.Errorf("asked again at once: %+v, %v", r, err)
	}
}

// Destinations that divide the rows are counted together, each for itself. A count that too many rows of another destination
// are in the way of is no gauge.
func TestGaugesOfDestinations(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	for topic, n := range map[string]int{"orders": 3, "audit": 1, "else": 1} {
		s.Exec(t, "insert into outbox_messages (topic, payload) select $1, '{}' from generate_series(1, $2::int)", topic, n)
	}
	o := open(t, s, "orders orders", "audit audit", "none *")
	check := func(want ...*int64) {
		t.Helper()
		r, err := reportOf(t.Context(), &Counter{}, o)
		if err != nil || len(r.Destinations) != len(want) {
			t.Fatalf("%+v, %v", r, err)
		}
		for i := range want {
			if got := r.Destinations[i].Gauge("due"); (got == nil) != (want[i] == nil) || got != nil && *got != *want[i] {
				t.Errorf("%s: %v, not %v", r.Destinations[i].Name, got, want[i])
			}
		}
	}
	check(new(int64(3)), new(int64(1)), new(int64(1)))
	s.Exec(t, "insert into outbox_messages (topic, payload) select 'orders', '{}' from generate_series(1, 110000)")
	check(new(int64(10001)), nil, nil)
}

// slowParts are parts of a report whose queries take a time each. The limit is the second of the query. Those for which stuck
// is set are never answered.
func slowParts(n int, takes time.Duration, stuck *[100]bool) *Counter {
	c, began := &Counter{}, time.Now()
	for i := range n {
		c.parts = append(c.parts, &measurement{every: time.Duration(n) * countEvery, ask: func(ctx context.Context, r *Report) error {
			took := takes
			if stuck[i] {
				took = time.Hour
			}
			select {
			case <-time.After(took):
				*r = Report{Table: "found", Limit: int64(time.Since(began) / time.Second)}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
	}
	return c
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
			g, began := slowParts(c.views, c.takes, &stuck), time.Now()
			oldest := time.Duration(c.views)*countEvery + time.Minute
			last := c.views - 1
			scrape := func(known bool) {
				<-time.After(c.every)
				g.measure(t.Context())
				for i, v := range g.parts {
					counts := v.known()
					if missing := counts.Table == ""; missing != (i == last && !known) {
						t.Errorf("%+v: after %v the value of destination %d is missing: %t", c, time.Since(began), i, missing)
					} else if !missing {
						if age := time.Since(began) - time.Duration(counts.Limit)*time.Second; age > oldest {
							t.Errorf("%+v: the value of destination %d is %v old", c, i, age)
						}
					}
				}
			}
			long := time.Duration(c.views)*countEvery*2 + 2*time.Minute
			for time.Since(began) < long { // each is measured once
				<-time.After(c.every)
				g.measure(t.Context())
			}
			for began := time.Now(); time.Since(began) < long; {
				scrape(true)
			}
			stuck[last] = true
			for began := time.Now(); time.Since(began) < long; {
				<-time.After(c.every)
				g.measure(t.Context())
			}
			for began := time.Now(); time.Since(began) < long; {
				scrape(false)
			}
			stuck[last] = false
			for began := time.Now(); time.Since(began) < long; {
				<-time.After(c.every)
				g.measure(t.Context())
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
		g := slowParts(3, time.Millisecond, &stuck)
		g.measure(t.Context())
		for i := range g.parts {
			stuck[i] = i < 2
		}
		g.parts[0].due, g.parts[1].due = time.Now(), time.Now()
		for range 100 {
			<-time.After(30 * time.Second)
			g.parts[0].due, g.parts[1].due = time.Time{}, time.Time{} // they always go before it
			g.measure(t.Context())
		}
		if counts := g.parts[2].known(); counts.Table != "" {
			t.Errorf("%d is given after an hour", counts.Limit)
		}
	})
}
