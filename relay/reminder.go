package relay

import (
	"context"
	"math"
	"time"
)

// A reminder tells every five minutes of what still cannot be used, so that a log that begins in the middle of an outage says so, too.
type reminder struct {
	since time.Time // when it was seen first; zero while it can be used
	told  time.Time // when the log was told last
}

const (
	remindEvery = 5 * time.Minute
	remindLook  = 5 * time.Second
)

// due notes whether something can be used now, and reports whether the log is to be reminded that it cannot, and since when that is known.
func (m *reminder) due(trouble bool, now time.Time) (since time.Time, due bool) {
	switch {
	case !trouble:
		*m = reminder{}
	case m.since.IsZero():
		m.since, m.told = now, now // the beginning is told by whoever meets it
	case now.Sub(m.told) >= remindEvery:
		m.told = now
		return m.since, true
	}
	return m.since, false
}

// remind reminds the log of outages, with how many rows wait, as far as the table's indexes tell.
func (r *Relay) remind(ctx context.Context) {
	destinations, database := make([]reminder, len(r.probes)), reminder{}
	ticker := time.NewTicker(remindLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			trouble := r.databaseTrouble()
			if since, due := database.due(trouble != nil, now); due {
				r.config.Logger.Warn("database still cannot be used", "for", now.Sub(since).Round(time.Second), "error", trouble)
			}
			for i, p := range r.probes {
				err := r.usable(p)
				if since, due := destinations[i].due(err != nil && !p.destination.paused.Load(), now); due {
					attributes := []any{"destination", p.destination.Name, "for", now.Sub(since).Round(time.Second)}
					r.config.Logger.Warn("destination still cannot be used", append(append(attributes, r.waiting(ctx, i)...), "error", err)...)
				}
			}
		}
	}
}

// waiting says how many rows wait for a destination, and for how many seconds the oldest has been due.
func (r *Relay) waiting(ctx context.Context, destination int) (attributes []any) {
	tables := r.Tables()
	if tables == nil || tables[destination] == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	counts, err := tables[destination].Count(ctx)
	if err != nil {
		return nil // the database is told of apart
	}
	if counts.Pending != nil {
		attributes = append(attributes, "rows", *counts.Pending)
	}
	if counts.Oldest != nil {
		attributes = append(attributes, "oldest", math.Round(*counts.Oldest))
	}
	return attributes
}
