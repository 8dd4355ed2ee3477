package operate

import (
	"cmp"
	"context"
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
	next  int       // the part that is measured first the next time
	due   time.Time // time of the next queries
}

const (
	countTimeout = time.Second // limit on a query, and on when the last one for a caller begins
	countEvery   = time.Second
	countRest    = 20 // least pause after queries, as a multiple of their duration: 5 % of one server process
	// countAge is when the values of a part are too old to be given. With a hundred sets that take 90 ms each, all are
	// measured within four minutes; after an hour without a scrape only some are at once.
	countAge = 10 * time.Minute
)

// Report fills a report with what was measured now or a moment ago. It keeps the report's destinations in their order,
// also those that the outbox lacks. The outbox is that of the table. The error says why some of it is missing. Report
// waits for a query in progress, for twice countTimeout at most.
func (c *Counter) Report(ctx context.Context, table *outbox.Table, o *Outbox, r *Report) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table != table {
		c.table, c.parts, c.next, c.due = table, o.measurements(), 0, time.Time{}
	}
	r.Table, r.Limit = table.Name(), outbox.CountCap
	return c.fill(context.WithoutCancel(ctx), r) // the result is not for this caller alone
}

// fill adds what is known now, or a moment ago.
func (c *Counter) fill(ctx context.Context, r *Report) (err error) {
	if !time.Now().Before(c.due) {
		c.measure(ctx)
	}
	for _, p := range c.parts {
		if time.Since(p.at) < countAge {
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
	picks, _ := o.pick(Selection{}, everyRow, nil) // each table may have such rows
	return append(o.parts(picks, countTimeout), &part{ask: func(ctx context.Context) (func(*Report), error) {
		found, err := o.Views[0].Size(ctx)
		if outbox.Locked(err) { // the counts say so
			return func(*Report) {}, nil
		}
		return func(r *Report) {
			if err == nil {
				r.Size = &found
			}
		}, err
	}})
}

// measure asks for one part after the other until countTimeout is over, and begins the next time where it ended. Each
// part has as much time, and a little more, so that a count says itself that it took too long.
func (c *Counter) measure(ctx context.Context) {
	began := time.Now()
	for range c.parts {
		p := c.parts[c.next]
		limited, cancel := context.WithTimeout(ctx, countTimeout+countTimeout/4)
		p.add, p.err = p.ask(limited)
		cancel()
		p.at = time.Now()
		if c.next = (c.next + 1) % len(c.parts); time.Since(began) >= countTimeout {
			break
		}
	}
	c.due = time.Now().Add(max(countEvery, countRest*time.Since(began)))
}
