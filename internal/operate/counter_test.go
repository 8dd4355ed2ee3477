package operate

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// reportOf asks a counter.
func reportOf(ctx context.Context, c *Counter, o *Outbox) (Report, error) {
	var r Report
	for _, v := range o.Views {
		r.Destinations = append(r.Destinations, NewDestination(v.View().Name, false))
	}
	err := c.Report(ctx, o.Views[0], o, &r)
	return r, err
}

// Who asks while the last answer is fresh gets that answer, and a scraper that disconnects does not spoil it for the
// others.
func TestTableIsMeasuredOnceForAll(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	o, c := open(t, s), &Counter{}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if r, err := reportOf(gone, c, o); err != nil || r.Size == nil || r.Size.Bytes == 0 || r.Ownership == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	due := func(at time.Time) {
		for _, p := range c.parts {
			p.due = at
		}
	}
	due(time.Now().Add(time.Hour)) // the answer stays fresh
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
	due(time.Now())
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

// Destinations that divide the rows are counted together, each for itself. A count that too many rows of another
// destination are in the way of is no gauge.
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
		for tries := 0; tries < 20 && r.Destinations[0].Due == nil; tries++ { // a busy server takes too long to count
			r, err = reportOf(t.Context(), &Counter{}, o)
		}
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

// Where the queries of many destinations take more time together than a scrape has, no value disappears, and none
// becomes old. A destination that cannot be measured any more loses its own values, keeps no other one from being
// measured, and has values again when it can be. All queries together take a twentieth of the time at most.
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
		{100, 90 * time.Millisecond, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, stuck, asked := &Counter{}, false, time.Duration(0)
			for i := range c.views {
				g.parts = append(g.parts, &part{ask: func(ctx context.Context) (func(*Report), error) {
					began := time.Now()
					defer func() { asked += time.Since(began) }()
					takes := c.takes
					if stuck && i == c.views-1 {
						takes = time.Hour
					}
					select {
					case <-time.After(takes):
						return func(r *Report) { r.Note(fmt.Sprint(i)) }, nil
					case <-ctx.Done():
						return func(*Report) {}, ctx.Err()
					}
				}})
			}
			const settle, watch = 10 * time.Minute, 20 * time.Minute
			for _, state := range []bool{false, true, false} {
				stuck = state
				for began := time.Now(); time.Since(began) < settle+watch; {
					<-time.After(c.every)
					var r Report
					err := g.fill(t.Context(), &r)
					if want := c.views; time.Since(began) > settle {
						if stuck {
							want--
						}
						if len(r.Problems) != want || (err != nil) != stuck {
							t.Fatalf("%+v, stuck %t: values of %d parts (%v)", c, stuck, len(r.Problems), err)
						}
					}
				}
			}
			if asked > 3*(settle+watch)/20 {
				t.Errorf("%+v: the database worked for %v", c, asked)
			}
		})
	}
}
