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

// reminders are those of a relay: of its database, and for each destination of the broker and of what is held of it.
type reminders struct {
	database      reminder
	brokers, held []reminder
}

// remind reminds the log of outages, with how many rows wait, as far as the table's indexes tell.
func (r *Relay) remind(ctx context.Context) {
	m := reminders{brokers: make([]reminder, len(r.probes)), held: make([]reminder, len(r.probes))}
	ticker := time.NewTicker(remindLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			r.remindOf(ctx, &m, now)
		}
	}
}

func (r *Relay) remindOf(ctx context.Context, m *reminders, now time.Time) {
	trouble := r.databaseTrouble()
	if since, due := m.database.due(trouble != nil, now); due {
		r.config.Logger.Warn("database still cannot be used", "for", now.Sub(since).Round(time.Second), "error", trouble)
	}
	for i, p := range r.probes {
		err, paused, held := r.usable(p), p.destination.paused.Load(), r.metrics.of(p.destination).note
		attributes := func(since time.Time) []any {
			return append([]any{"destination", p.destination.Name, "for", now.Sub(since).Round(time.Second)}, r.waiting(ctx, i)...)
		}
		if since, due := m.brokers[i].due(err != nil && !paused, now); due {
			r.config.Logger.Warn("destination still cannot be used", append(attributes(since), "error", err)...)
		}
		if since, due := m.held[i].due(held != "" && err == nil && !paused, now); due {
			r.config.Logger.Warn("topics are still held", append(attributes(since), "reason", held)...)
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
