package relay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
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
	count  func(context.Context) (outbox.Counts, error) // nil if the table lacks a column for it
	counts outbox.Counts
	err    error
	due    time.Time // time of the next query
	old    time.Time // when the counts are too old to be given
}

const (
	countTimeout = time.Second // limit on the count queries of one scrape together, and on a query for the size
	countEvery   = time.Second
	countGrace   = time.Minute // least time for which values are given when the next query is due; most scrapes are less far apart
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
			v := &measuredView{}
			if view != nil {
				v.count = view.Count
			}
			g.views = append(g.views, v)
		}
	}
	ctx = context.WithoutCancel(ctx) // the result is not for this caller alone
	g.count(ctx)
	err = g.measureSize(ctx)
	for _, v := range g.views {
		counts, err = append(counts, v.known()), cmp.Or(v.err, err)
	}
	return counts, g.size, err
}

// known returns the values, none if they are too old. Otherwise they would stay as they are where the others leave no time for this
// destination.
func (v *measuredView) known() outbox.Counts {
	if time.Now().After(v.old) {
		return outbox.Counts{}
	}
	return v.counts
}

// count queries the rows of the destinations that are due for a query, in the order of how long they have waited. A destination
// for which no time is left comes first the next time, and keeps its values. So does one whose query fails in what the others have
// left of the time: only with all of it does a failure say that the values cannot be read.
func (g *tableGauges) count(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	all := true
	for _, v := range slices.SortedFunc(slices.Values(g.views), func(a, b *measuredView) int { return a.due.Compare(b.due) }) {
		started := time.Now()
		if started.Before(v.due) || limited.Err() != nil {
			return
		}
		if v.count == nil {
			continue
		}
		counts, err := v.count(limited)
		if limited.Err() != nil && err != nil && !all {
			return
		}
		all = false
		ended := time.Now()
		rest := max(countEvery*time.Duration(len(g.views)), engine.RestShare*ended.Sub(started))
		v.counts, v.err, v.due = counts, err, ended.Add(rest)
		v.old = v.due.Add(max(rest, countGrace))
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
	g.due = ended.Add(max(sizeEvery, engine.RestShare*ended.Sub(started)))
	return err
}
