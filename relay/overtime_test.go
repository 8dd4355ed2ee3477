package relay

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// slowTable makes some of its reads take long. The server cancels reads that exceed their time, as PostgreSQL does.
type slowTable struct {
	*simTable
	needs func(outbox.Query) time.Duration // time that a read needs; 0: as usual
	spent atomic.Int64                     // nanoseconds that such reads took
}

var errSimTimeout error = &pgconn.PgError{Code: "57014"} // query_canceled

func (s *slowTable) Read(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	needs := s.needs(q)
	deadline, _ := ctx.Deadline()
	allowed := time.Until(deadline) * 9 / 10
	s.spent.Add(int64(min(needs, allowed)))
	if needs > allowed {
		time.Sleep(allowed)
		return outbox.Page{}, errSimTimeout
	}
	page, err := s.simTable.Read(ctx, q)
	time.Sleep(needs)
	return page, err
}

func reconciling(q outbox.Query) bool { return q.Upto != nil }

// A read that exceeds its time lets other reads go first. It takes a small share of the time, however long it would need, and
// rows continue to flow.
func TestReadsThatNeverEndExcludeNobody(t *testing.T) {
	for name, slow := range map[string]func(outbox.Query) bool{
		"reconciliation scans": reconciling,
		"re-reads":             func(q outbox.Query) bool { return q.IDs != nil },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				table := &slowTable{simTable: s.table, needs: func(q outbox.Query) time.Duration {
					if slow(q) {
						return time.Hour
					}
					return 0
				}}
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
				time.Sleep(dispatch.StatementTimeout)
				if got := len(s.All()); got < rows {
					t.Errorf("%d of %d rows of other keys were delivered", got, rows)
				}
				if prompt < rows*8/10 {
					t.Errorf("%d of %d rows were relayed within a second", prompt, rows)
				}
				if spent := time.Duration(table.spent.Load()); spent > rows*every/10 {
					t.Errorf("the reads that never end took %v of %v", spent, rows*every)
				}
			})
		})
	}
}

// A read that needs more time than it is allowed at first is given more, until it ends.
func TestLongReadsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		needs  time.Duration
		slow   func(outbox.Query) bool
		within time.Duration
	}{
		"reconciliation scans": {20 * time.Second, reconciling, 20 * time.Minute},
		"re-reads":             {10 * time.Second, func(q outbox.Query) bool { return q.IDs != nil }, 20 * time.Minute},
		"first tail scan": {
			2 * time.Minute, func(q outbox.Query) bool {
				return q.After.IsZero() && q.Recent == nil && !reconciling(q) && q.IDs == nil
			},
			20 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				table := &slowTable{simTable: s.table, needs: func(q outbox.Query) time.Duration {
					if test.slow(q) {
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
				s.table.insert(1, "late", "", "t") // only the reconciliation scan finds it
				s.table.drained(t, test.within)
				checkOrder(t, s.All())
			})
		})
	}
}
