package relay

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// slowTable makes some of its reads take long. The server cancels reads that exceed their time, as PostgreSQL does.
type slowTable struct {
	*simTable
	needs func(kind engine.Kind, first bool) time.Duration // time that a read needs; 0: as usual
	spent atomic.Int64                                     // nanoseconds that such reads took
}

var errSimTimeout error = &pgconn.PgError{Code: "57014"} // query_canceled

// take lets the time of a read pass.
func (s *slowTable) take(ctx context.Context, kind engine.Kind, first bool) error {
	needs := s.needs(kind, first)
	deadline, _ := ctx.Deadline()
	allowed := time.Until(deadline) * 9 / 10
	s.spent.Add(int64(min(needs, allowed)))
	if needs > allowed {
		time.Sleep(allowed)
		return errSimTimeout
	}
	time.Sleep(needs)
	return nil
}

func (s *slowTable) Tail(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	kind := engine.Tail
	if q.Sweep {
		kind = engine.Sweep
	}
	if err := s.take(ctx, kind, kind == engine.Tail && q.After.IsZero()); err != nil {
		return outbox.Page{}, err
	}
	return s.simTable.Tail(ctx, q)
}

func (s *slowTable) Keys(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	if err := s.take(ctx, engine.Keys, false); err != nil {
		return outbox.Page{}, err
	}
	return s.simTable.Keys(ctx, q)
}

// A read that exceeds its time lets other reads go first. It takes a small share of the time, however long it would
// need, and rows continue to flow.
func TestReadsThatNeverEndExcludeNobody(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]engine.Kind{"sweeps": engine.Sweep, "reads of keys": engine.Keys} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				table := &slowTable{simTable: s.table, needs: func(kind engine.Kind, _ bool) time.Duration {
					if kind == slow {
						return time.Hour
					}
					return 0
				}}
				s.interval = 500 * time.Millisecond // half an hour of polls
				s.Refuse("bad", 1)
				s.table.insert(1, "bad", "badkey", "t")
				stop, done := s.startOn(table)
				defer func() { stop(); <-done }()
				const rows, every = 90, 20 * time.Second
				prompt := 0
				for i := range rows {
					time.Sleep(every)
					id := "r" + strconv.Itoa(i)
					s.table.insert(int64(i+2), id, "k"+strconv.Itoa(i), "t")
					time.Sleep(time.Second)
					if s.table.row(id).relayed {
						prompt++
					}
				}
				time.Sleep(engine.StatementTimeout)
				if got := len(s.All()); got < rows {
					t.Errorf("%d of %d rows of other keys were delivered", got, rows)
				}
				if prompt < rows*8/10 {
					t.Errorf("%d of %d rows were relayed within a second", prompt, rows)
				}
				if spent := time.Duration(table.spent.Load()); slow == engine.Sweep && spent > rows*every/10 {
					t.Errorf("the reads that never end took %v of %v", spent, rows*every)
				}
			})
		})
	}
}

// A read that needs more time than it is allowed at first is given more, until it ends.
func TestLongReadsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		needs  time.Duration
		slow   engine.Kind
		within time.Duration
	}{
		"sweeps":        {20 * time.Second, engine.Sweep, 30 * time.Minute},
		"reads of keys": {10 * time.Second, engine.Keys, 20 * time.Minute},
		"first page":    {2 * time.Minute, engine.Tail, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				table := &slowTable{simTable: s.table, needs: func(kind engine.Kind, first bool) time.Duration {
					if kind == test.slow && (kind != engine.Tail || first) {
						return test.needs
					}
					return 0
				}}
				for i := range 10 {
					s.table.insert(int64(i+100), "k-"+strconv.Itoa(i), "k", "t")
				}
				s.Refuse("k-5", 1)
				stop, done := s.startOn(table)
				defer func() { stop(); <-done }()
				time.Sleep(test.within / 4)
				s.table.insert(1, "late", "", "t") // only a sweep finds it
				s.table.drained(t, test.within)
				checkOrder(t, s.All())
			})
		})
	}
}
