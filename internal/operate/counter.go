package operate

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A Counter measures the table for everybody who asks: gauges, logs, the status page. However many ask, the database is
// asked at most once a second, and less often if it takes long to answer: while a session keeps an old snapshot open, a
// query steps over every row that was relayed since. A failed query leaves no values, also for those who ask before the
// next one. The zero Counter is ready.
type Counter struct {
	mu    sync.Mutex
	table *outbox.Table // of the last caller
	parts []*part
}

const (
	countTimeout = time.Second // limit on a query, and on when the last one for a caller begins
	countEvery   = time.Second
	// countRest is the least pause after a query, as a multiple of what as many parts take: all together take less than
	// 5 % of one server process. With a hundred sets that take 90 ms each, all are measured within five minutes.
	countRest = 25
	// countLongest is the longest such pause.
	countLongest = 5 * time.Minute
)

// Report fills a report with what was measured now or a moment ago. It keeps the report's destinations in their order,
// also those that the outbox lacks. The outbox is that of the table. The error says why some of it is missing. Report
// waits for a query in progress, for twice countTimeout at most.
func (c *Counter) Report(ctx context.Context, table *outbox.Table, o *Outbox, r *Report) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table != table {
		c.table, c.parts = table, o.measurements()
	}
	r.Table, r.Limit = table.Name(), outbox.CountCap
	return c.fill(context.WithoutCancel(ctx), r) // the result is not for this caller alone
}

// fill measures the parts that are due, those first that have been for the longest time, as long as countTimeout is not
// over, and adds to a report what is known. The others are measured for one of the next callers.
func (c *Counter) fill(ctx context.Context, r *Report) (err error) {
	began := time.Now()
	slices.SortStableFunc(c.parts, func(a, b *part) int { return a.due.Compare(b.due) })
	for _, p := range c.parts {
		if now := time.Now(); !now.Before(p.due) && now.Sub(began) < countTimeout {
			// A count says itself that it took too long.
			limited, cancel := context.WithTimeout(ctx, countTimeout+countTimeout/4)
			p.add, p.err = p.ask(limited)
			cancel()
			rest := time.Duration(countRest*len(c.parts)) * time.Since(now)
			p.due = time.Now().Add(min(max(countEvery, rest), countLongest))
		}
		if p.add != nil {
			err = cmp.Or(p.err, err)
			p.add(r)
		}
	}
	return err
}

// measurements returns the parts of a report about all rows, the replicas and the table's size.
func (o *Outbox) measurements() []*part {
	if len(o.Views) == 0 {
		return nil
	}
	picks, _ := o.pick(Selection{}, everyRow) // each table may have such rows
	return append(o.parts(picks, countTimeout), &part{ask: func(ctx context.Context) (func(*Report), error) {
		found, err := o.Views[0].Size(ctx)
		add := func(r *Report) {
			if err == nil {
				r.Size = &found
			}
		}
		if outbox.Locked(err) { // the counts say so
			return add, nil
		}
		return add, err
	}})
}
