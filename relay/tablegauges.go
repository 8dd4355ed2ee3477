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

// tableGauges measures the table for those who scrape, as each destination sees it. However many they are and however often they come, the
// database is asked once a second at most for all destinations together, and more rarely where that takes it long: where somebody keeps an
// old snapshot open, an answer steps over all that was relayed since. An answer that has failed is no answer, also for those who come while
// the database rests.
type tableGauges struct {
	every time.Duration // the least between two questions; 0 is countEvery

	mu    sync.Mutex
	table *outbox.Table
	views []*measuredView
	size  *outbox.Size // nil when it is not known
	due   time.Time    // of the next question about that
}

// measuredView is the table as one destination sees it.
type measuredView struct {
	*outbox.Table // nil when the table lacks a column for it
	counts        outbox.Counts
	err           error
	due           time.Time // of the next question
}

// measurement is what is known of a table.
type measurement struct {
	counts []outbox.Counts // as each destination sees it
	size   *outbox.Size
	err    error // why some of that is missing
}

const (
	countTimeout = time.Second // bounds what is asked of the destinations at one time, and a question about the size
	countEvery   = time.Second
	sizeEvery    = 30 * time.Second
)

// measure returns what the table says now or has said a moment ago. It waits for a question that is under way.
func (g *tableGauges) measure(ctx context.Context, table *outbox.Table, views func(*outbox.Table) []*outbox.Table) measurement {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.table != table {
		g.table, g.views, g.size, g.due = table, nil, nil, time.Time{}
		for _, view := range views(table) {
			g.views = append(g.views, &measuredView{Table: view})
		}
	}
	ctx = context.WithoutCancel(ctx) // the answer is not for this one alone
	g.count(ctx)
	m := measurement{err: g.measureSize(ctx), size: g.size}
	for _, v := range g.views {
		m.counts = append(m.counts, v.counts)
		m.err = cmp.Or(v.err, m.err)
	}
	return m
}

// count asks for the rows of the destinations that are due, those that have waited longest first. Those for which there is no time are the
// first next time.
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
		v.due = ended.Add(max(cmp.Or(g.every, countEvery)*time.Duration(len(g.views)), feed.RestShare*ended.Sub(started)))
	}
}

// measureSize asks for the size when that is due.
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
