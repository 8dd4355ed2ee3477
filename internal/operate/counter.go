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
// asked at most once a second for each set of destinations, and less often if it takes long to answer: while a session
// keeps an old snapshot open, a query steps over every row that was relayed since. A failed query leaves no values,
// also for those who ask before the next one. The zero Counter is ready.
type Counter struct {
	mu    sync.Mutex
	table *outbox.Table // of the last caller
	parts []*measurement
}

// measurement is a part of the report, which is measured by itself.
type measurement struct {
	ask   func(context.Context, *Report) error
	every time.Duration
	found Report
	err   error
	due   time.Time // time of the next query
	old   time.Time // when the values are too old to be given
}

const (
	countTimeout = time.Second // limit on all queries for one caller
	countEvery   = time.Second
	countRest    = 20          // least pause after a query, as a multiple of its duration: 5 % of one server process
	countGrace   = time.Minute // least time for which values are given when the next query is due; most scrapes are closer
	sizeEvery    = 30 * time.Second
)

// Report fills a report with what was measured now or a moment ago. It keeps the report's destinations in their order,
// also those that the outbox lacks. open is called if the table is another one than the last time. The error says why
// some of it is missing. Report waits for a query in progress, for countTimeout at most.
func (c *Counter) Report(ctx context.Context, table *outbox.Table, open func() *Outbox, r *Report) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table != table {
		c.table, c.parts = table, open().measurements()
	}
	c.measure(context.WithoutCancel(ctx)) // the result is not for this caller alone
	r.Table, r.Limit = table.Name(), outbox.CountCap
	for _, m := range c.parts {
		err = cmp.Or(m.err, err)
		r.take(m.known())
	}
	return err
}

// measurements returns the parts of a report.
func (o *Outbox) measurements() (parts []*measurement) {
	if len(o.Views) == 0 {
		return nil
	}
	sets := o.sets()
	for _, s := range sets {
		parts = append(parts, &measurement{every: countEvery * time.Duration(len(sets)), ask: func(ctx context.Context,
			r *Report,
		) error {
			*r = o.newReport(s)
			return o.count(ctx, s, Selection{}, r, countTimeout)
		}})
	}
	return append(parts, &measurement{every: countEvery, ask: o.reportOwnership},
		&measurement{every: sizeEvery, ask: func(ctx context.Context, r *Report) error {
			size, err := o.Views[0].Table.Size(ctx)
			if err == nil {
				r.Size = &size
			}
			return err
		}})
}

// known returns what was found, nothing if it is too old: it would stay as it is where the others leave no time for it.
func (m *measurement) known() *Report {
	if time.Now().After(m.old) {
		return &Report{}
	}
	return &m.found
}

// measure asks for the parts whose time has come, in the order of how long they have waited. A part for which no time
// is left comes first the next time, and keeps its values. So does one whose query fails in what the others have left
// of the time: only with all of it does a failure say that the values cannot be read.
func (c *Counter) measure(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	first := true
	for _, m := range slices.SortedFunc(slices.Values(c.parts), func(a, b *measurement) int {
		return a.due.Compare(b.due)
	}) {
		started := time.Now()
		if started.Before(m.due) || limited.Err() != nil {
			return
		}
		var found Report
		err := m.ask(limited, &found)
		slow := err != nil && (limited.Err() != nil || unanswered(err))
		switch {
		case slow && !first:
			return
		case slow && limited.Err() == nil: // a problem of the report says so
			err = nil
		}
		first = false
		ended := time.Now()
		rest := max(m.every, countRest*ended.Sub(started))
		m.found, m.err, m.due = found, err, ended.Add(rest)
		m.old = m.due.Add(max(rest, countGrace))
	}
}
