package relay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// tableGauges measures the table as each destination sees it, for scrapes. However many scrapes there are, the database
// is queried at most once a second for all destinations together, and less often if the queries take long: while a
// session keeps an old snapshot open, a query steps over every row that was relayed since. A failed query leaves no
// values, also for the scrapes that come before the next query.
type tableGauges struct {
	mu    sync.Mutex
	table *outbox.Table
	views []*measuredView
	size  *outbox.Size // nil if it is not known
	due   time.Time    // time of the next query for the size
}

// measuredView is the table as one destination sees it.
type measuredView struct {
	*outbox.Table // nil if the table lacks a column for it
	counts        outbox.Counts
	err           error
	due           time.Time // time of the next query
}

const (
	countTimeout = time.Second // limit on the count queries of one scrape together, and on a query for the size
	countEvery   = time.Second
	sizeEvery    = 30 * time.Second
)

// measure returns the values of a query made now or a moment ago: the counts for each destination, and the size or nil.
// The error says why some of the values are missing. It waits for a query that is under way.
func (g *tableGauges) measure(ctx context.Context, table *outbox.Table, views func(*outbox.Table) []*outbox.Table) (
	counts []outbox.Counts, size *outbox.Size, err error,
) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.table != table {
		g.table, g.views, g.size, g.due = table, nil, nil, time.Time{}
		for _, view := range views(table) {
			g.views = append(g.views, &measuredView{Table: view})
		}
	}
	ctx = context.WithoutCancel(ctx) // the result is not for this caller alone
	g.count(ctx)
	err = g.measureSize(ctx)
	for _, v := range g.views {
		counts, err = append(counts, v.counts), cmp.Or(v.err, err)
	}
	return counts, g.size, err
}

// count queries the rows of the destinations that are due for a query, in the order of how long they have waited. A
// destination for which no time is left comes first the next time.
func (g *tableGauges) count(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	for _, v := range slices.SortedFunc(slices.Values(g.views), func(a, b *measuredView) int { return a.due.Compare(b.due) }) {
		started := time.Now()
		if started.Before(v.due) || limited.Err() != nil {
			return
		}
		if v.Table == nil {
			continue
		}
		v.counts, v.err = v.Count(limited)
		ended := time.Now()
		v.due = ended.Add(max(countEvery*time.Duration(len(g.views)), feed.RestShare*ended.Sub(started)))
	}
}

// measureSize queries the size if that is due.
func (g *tableGauges) measureSize(ctx context.Context) error {
	started := time.Now()
	if started.Before(g.due) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	size, err := g.table.Size(limited)
	if g.size = &size; err != nil {
		g.size = nil
	}
	ended := time.Now()
	g.due = ended.Add(max(sizeEvery, feed.RestShare*ended.Sub(started)))
	return err
}
