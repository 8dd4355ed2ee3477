package relay

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// countedTable counts the attempts to mark rows.
type countedTable struct {
	*guardedTable
	tries atomic.Int64
}

func (c *countedTable) Settle(ctx context.Context, rows []*outbox.Row, free bool) (map[string]error, error) {
	c.tries.Add(1)
	return c.guardedTable.Settle(ctx, rows, free)
}

// Many rows that cannot be marked leave the remaining room to other rows, are tried at a bounded cost, and are reported
// once a minute.
func TestManyRowsThatCannotBeMarked(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		var log bytes.Buffer
		s.log = &log
		table := &countedTable{guardedTable: &guardedTable{s.table, map[string]bool{}}}
		const bad = 370 // of 400 that may be in flight
		for i := range bad {
			id := fmt.Sprintf("g%d-0", i)
			table.guarded[id] = true
			s.table.insert(int64(i), id, fmt.Sprintf("g%d", i), "t")
		}
		cancel, done := s.startOn(table)
		time.Sleep(5 * time.Second)
		before := table.tries.Load()
		time.Sleep(10 * time.Minute)
		if tries := table.tries.Load() - before; tries > 60*2*32 {
			t.Errorf("%d tries to mark in 10 minutes", tries)
		}
		for i := range 200 {
			s.table.insert(int64(1000+i), fmt.Sprintf("k%d-%d", i%20, i), fmt.Sprintf("k%d", i%20), "t")
		}
		time.Sleep(10 * time.Second)
		if pending := s.table.pending(); len(pending) != bad {
			t.Errorf("%d rows pending, want %d", len(pending), bad)
		}
		cancel()
		<-done
		if logged := bytes.Count(log.Bytes(), []byte("cannot be marked")); logged > 12 {
			t.Errorf("logged %d times", logged)
		}
		if got := len(s.All()); got != bad+200 {
			t.Errorf("%d deliveries of %d rows", got, bad+200)
		}
	})
}
