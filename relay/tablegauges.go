package relay

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/outbox"
)

// tableGauges measures the table for those who scrape. However many they are and however often they come, the database is asked once a
// second at most, and more rarely where that takes it long: where somebody keeps an old snapshot open, an answer steps over all that was
// relayed since. An answer that has failed is no answer, also for those who come while the database rests.
type tableGauges struct {
	every time.Duration // the least between two questions; 0 is countEvery

	mu     sync.Mutex
	table  *outbox.Table
	counts outbox.Counts
	err    error
	due    time.Time // of the next question
}

const (
	countTimeout = time.Second // bounds one question
	countEvery   = time.Second
)

// measure returns what the table says now or has said a moment ago. It waits for a question that is under way.
func (g *tableGauges) measure(ctx context.Context, table *outbox.Table) (outbox.Counts, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	started := time.Now()
	if g.table == table && started.Before(g.due) {
		return g.counts, g.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout) // the answer is not for this one alone
	defer cancel()
	g.table = table
	g.counts, g.err = table.Count(ctx)
	ended := time.Now()
	g.due = ended.Add(max(cmp.Or(g.every, countEvery), restShare*ended.Sub(started)))
	return g.counts, g.err
}
