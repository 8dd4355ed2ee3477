package relay

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// crowdedTable counts how many writers write at the same time.
type crowdedTable struct {
	*simTable
	now, most atomic.Int64
}

func (c *crowdedTable) Settle(ctx context.Context, rows []*outbox.Row, free bool) (map[string]error, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	c.most.Store(max(c.most.Load(), n))
	return c.simTable.Settle(ctx, rows, free)
}

// However many destinations have the same columns, two statements write, each the results of several destinations.
func TestDestinationsShareStatements(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const destinations, rows = 5, 200
		s.destinations = nil
		for i := range destinations {
			s.destinations = append(s.destinations,
				s.destination(fmt.Sprint("d", i), publishertest.NewBroker(), fmt.Sprint("t", i)))
		}
		for i := range destinations * rows {
			s.table.insert(int64(i+1), fmt.Sprint("r", i), fmt.Sprint("k", i), fmt.Sprint("t", i%destinations))
		}
		s.limits = engine.Limits{Batch: 100, Rows: 10_000, Bytes: 1 << 20}
		s.table.setTook(20 * time.Millisecond)
		table := &crowdedTable{simTable: s.table}
		cancel, done := s.startOn(table)
		s.table.drained(t, time.Minute)
		cancel()
		<-done
		if most := table.most.Load(); most > 2 {
			t.Errorf("%d write at a time", most)
		}
		if n := s.table.settleCount(); n > 2*rows/s.limits.Batch+destinations {
			t.Errorf("%d statements mark %d rows of each of %d destinations", n, rows, destinations)
		}
	})
}
