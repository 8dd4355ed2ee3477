package relay

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A row that breaks the connection each time is found and refused. This also holds where there are several destinations
// and no room to remember the waiting keys. The rows of its topic that wait for it continue.
func TestRowThatBreaksConnectionsIsFoundAmongDestinations(t *testing.T) {
	t.Parallel()
	for _, room := range []int{5, 0} {
		t.Run(fmt.Sprint("room for ", room, " keys"), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: 3, Rows: 14, Bytes: 64, Keys: room}
				s.destinations = []*Destination{s.destination("one", s.Broker, "a"), s.destination("two", s.Broker, "b")}
				for i := range 60 {
					key := fmt.Sprint("k", i%6)
					s.table.insert(int64(i+1), fmt.Sprint(key, "-", i/6), key, []string{"b", "a", "b"}[i%3])
				}
				for _, id := range []string{"k2-0", "k3-1"} {
					s.Crash(id)
				}
				stop := s.start()
				defer stop()
				for i := 60; len(s.table.pending()) > 0 && i < 3000; i++ {
					// Later rows show which one is to blame.
					s.table.insert(int64(i+1), fmt.Sprint("later-", i), "", []string{"a", "b"}[i%2])
					time.Sleep(500 * time.Millisecond)
					if i > 600 {
						t.Fatalf("%d rows are pending", len(s.table.pending()))
					}
				}
				for _, id := range []string{"k2-0", "k3-1"} {
					if !s.table.row(id).failed {
						t.Errorf("%s has not failed", id)
					}
				}
			})
		})
	}
}

// More rows than there is room for are tried in vain, and their tries are counted in memory only: by keys that break
// the connection, or in a table that has no column for attempts. Each of them fails in the end, while other rows flow.
func TestMoreCountedTriesThanRoom(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*sim, string){
		"without an answer": func(s *sim, id string) { s.Crash(id) },
		"without attempts":  func(s *sim, id string) { s.table.keepsAttempts = false; s.Refuse(id, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits.Keys = 3
				s.table.byKey = true
				const bad = 12
				for i := range bad {
					id := fmt.Sprint("bad-", i)
					s.table.insert(int64(2*i+1), id, id, "a")
					s.table.insert(int64(2*i+2), fmt.Sprint("next-", i), id, "a")
					spoil(s, id)
				}
				stop := s.start()
				defer stop()
				for i := 2 * bad; len(s.table.pending()) > 0; i++ {
					if i > 20_000 {
						t.Fatalf("pending: %.300q", s.table.pending())
					}
					s.table.insert(int64(i+1), fmt.Sprint("later-", i), "", "a")
					time.Sleep(200 * time.Millisecond)
				}
				if failed := len(s.table.failedRows()); failed != bad {
					t.Errorf("%d rows have failed instead of %d", failed, bad)
				}
			})
		})
	}
}

// cut is a publisher behind a proxy that ends each connection a while after its first message, in front of a broker
// that is silent.
type cut struct {
	publisher.Publisher
	after  time.Duration
	silent atomic.Bool
}

func (p *cut) Publish(ctx context.Context, messages []publisher.Message) []error {
	if !p.silent.Load() {
		return p.Publisher.Publish(ctx, messages)
	}
	time.Sleep(p.after)
	return slices.Repeat([]error{publisher.AmbiguousError("connection lost", "the connection ended")}, len(messages))
}

// What may as well be the broker's fault costs no attempt: connections that break for less than a minute, or for rows
// of several keys; a broker that is silent, also behind a proxy that gives up before the publish timeout; one that
// cannot be reached between two tries.
func TestConnectionsThatBreakInAnOutage(t *testing.T) {
	t.Parallel()
	const rows = 30
	insert := func(s *sim, n int) {
		for i := range n {
			s.table.insert(int64(i), fmt.Sprint("row-", i), fmt.Sprint("k", i), "t")
		}
	}
	for name, outage := range map[string]func(s *sim){
		"a short one": func(s *sim) {
			insert(s, 1)
			s.Crash("row-0")
			time.Sleep(50 * time.Second)
		},
		"many rows": func(s *sim) {
			insert(s, rows)
			for i := range rows {
				s.Crash(fmt.Sprint("row-", i))
			}
			time.Sleep(3 * time.Minute)
		},
		"silence": func(s *sim) {
			insert(s, 1)
			s.Hold()
			time.Sleep(10 * time.Minute)
			s.Release()
		},
		"silence that a proxy ends": func(s *sim) {
			insert(s, 1)
			silent := &s.destinations[0].Publisher.(*cut).silent
			silent.Store(true)
			time.Sleep(10 * time.Minute)
			silent.Store(false)
		},
		"out of reach now and then": func(s *sim) {
			insert(s, 1)
			s.Crash("row-0")
			for range 20 {
				time.Sleep(20 * time.Second)
				s.Down()
				time.Sleep(10 * time.Second)
				s.Up()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.interval = time.Second // ten minutes of polls cost the race detector seconds
				s.destinations[0].Publisher = &cut{Publisher: s.destinations[0].Publisher, after: 2 * time.Second}
				defer s.start()()
				outage(s)
				if name != "a short one" && s.destinations[0].snapshot().Down == nil {
					t.Error("the destination is not said to be held")
				}
				for i := range rows {
					s.Heal(fmt.Sprint("row-", i))
				}
				s.table.drained(t, time.Minute)
				for i := range rows {
					if r := s.table.rows[fmt.Sprint("row-", i)]; r != nil && (r.attempt != 1 || r.failed) {
						t.Fatalf("%+v", r)
					}
				}
			})
		})
	}
}
