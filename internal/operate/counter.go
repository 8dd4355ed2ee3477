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
	countTimeout = time.Second // limit on all queries for one caller
	countEvery   = time.Second
	countRest    = 20 // least pause after queries, as a multiple of their duration: 5 % of one server process
	// countAge is when the values of a part are too old to be given. With a hundred sets that take 90 ms each, all are
	// measured within four minutes; after an hour without a scrape only some are at once.
	countAge = 10 * time.Minute
)

// Report fills a report with what was measured now or a moment ago. It keeps the report's destinations in their order,
// also those that the outbox lacks. The outbox is that of the table. The error says why some of it is missing. Report
// waits for a query in progress, for countTimeout at most.
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
		found, err := o.Views[0].Table.Size(ctx)
		return func(r *Report) {
			if err == nil {
				r.Size = &found
			}
		}, err
	}})
}

// measure asks for one part after the other, for as long as the limit allows, and begins the next time where it ended.
// A part whose query fails in what the others have left of the time keeps its values, and is the first the next time:
// only with all of the time does a failure say that the values cannot be read.
func (c *Counter) measure(ctx context.Context) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	for i := range c.parts {
		p := c.parts[c.next]
		add, err := p.ask(limited)
		slow := err != nil && (limited.Err() != nil || unanswered(err))
		if slow && i > 0 {
			break
		}
		if slow && limited.Err() == nil { // a problem of the report says so
			err = nil
		}
		p.add, p.err, p.at = add, err, time.Now()
		if c.next = (c.next + 1) % len(c.parts); limited.Err() != nil {
			break
		}
	}
	ended := time.Now()
	c.due = ended.Add(max(countEvery, countRest*ended.Sub(began)))
}
