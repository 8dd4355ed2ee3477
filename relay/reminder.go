package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// reminders make the log say every five minutes what still cannot be used, so that a log that begins in the middle of
// an outage shows it. There is one for each part that is in trouble, by the part's name.
type reminders map[string]reminder

type reminder struct {
	since  time.Time // when the trouble was first seen
	logged time.Time // when it was last logged
}

const (
	remindEvery = 5 * time.Minute
	remindLook  = 5 * time.Second // between two looks; also how long a look may take
)

// due notes whether a part is in trouble now. It reports whether the log is to repeat that, and since when it has been
// known.
func (m reminders) due(part string, trouble bool, now time.Time) (since time.Time, due bool) {
	last, known := m[part]
	switch {
	case !trouble:
		delete(m, part)
	case !known:
		m[part] = reminder{now, now} // the part that notices the trouble logs its beginning
	case now.Sub(last.logged) >= remindEvery:
		m[part] = reminder{last.since, now}
		return last.since, true
	}
	return last.since, false
}

// remind logs continuing outages, with the number of rows that wait as far as the table's indexes can provide it.
func (r *Relay) remind(ctx context.Context) {
	m := reminders{}
	every(ctx, remindLook, func(now time.Time) { r.remindOf(ctx, m, now) })
}

func (r *Relay) remindOf(ctx context.Context, m reminders, now time.Time) {
	r.lookAtCommits(ctx)
	trouble := r.databaseTrouble()
	if since, due := m.due("database", trouble != nil, now); due {
		lasting := now.Sub(since).Round(time.Second)
		r.config.Logger.Warn("database still cannot be used", "for", lasting, "error", trouble)
	}
	r.remindOfUntaken(ctx, m, now)
	for i, d := range r.config.Destinations {
		err, paused, held := d.unusable(), d.paused.Load(), d.snapshot().Note
		attributes := func(since time.Time) []any {
			return append([]any{"destination", d.Name, "for", now.Sub(since).Round(time.Second)}, r.waiting(ctx, i)...)
		}
		if since, due := m.due("broker of "+d.Name, err != nil && !paused, now); due {
			r.config.Logger.Warn("destination still cannot be used", append(attributes(since), "error", err)...)
		}
		if since, due := m.due("topics of "+d.Name, held != "" && err == nil && !paused, now); due {
			r.config.Logger.Warn("topics are still held", append(attributes(since), "reason", held)...)
		}
	}
}

// remindOfUntaken logs the topics of rows that no destination takes: these rows wait until one does.
func (r *Relay) remindOfUntaken(ctx context.Context, m reminders, now time.Time) {
	if takeAll(r.config.Destinations) || r.owned() == 0 {
		return
	}
	report, _ := r.measureTable(ctx)
	rest := report.Untaken
	_, known := m[untaken]
	if _, due := m.due(untaken, rest != nil, now); rest == nil || known && !due {
		return
	}
	var topics []string
	for _, t := range rest.Topics[:min(len(rest.Topics), mostTopics)] {
		topics = append(topics, t.Topic)
	}
	r.config.Logger.Warn("no destination takes rows of some topics: add these to the topics of a destination",
		"topics", topics, "rows", rest.Due)
}

// mostTopics is how many topics a line of the log names.
const mostTopics = 10

// lookAtCommits finds out, while rows are under way, whether commits wait for a synchronous standby. Statements that
// wait for one have written and do not return, so the relay would seem slow for no reason.
func (r *Relay) lookAtCommits(ctx context.Context) {
	table, _ := r.state()
	if table == nil || allOf(r.config.Destinations).InFlight == 0 {
		r.database.confirm(false)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, remindLook)
	defer cancel()
	if waits, err := table.Unconfirmed(ctx); err == nil { // trouble with the database shows elsewhere
		r.database.confirm(waits)
	}
}

// waiting returns how many rows wait for a destination, and for how long the oldest has been due, as attributes of a
// log line. What no index supports is left out.
func (r *Relay) waiting(ctx context.Context, destination int) (attributes []any) {
	report, _ := r.measureTable(ctx) // trouble with the database has a reminder of its own
	b := &report.Destinations[destination].Backlog
	switch rows := b.Gauge(outbox.Due); {
	case rows == nil:
	case *rows >= outbox.CountCap:
		attributes = append(attributes, "rows_at_least", *rows)
	default:
		attributes = append(attributes, "rows", *rows)
	}
	if b.OldestAgeSeconds != nil {
		oldest := time.Duration(*b.OldestAgeSeconds * float64(time.Second))
		attributes = append(attributes, "oldest", oldest.Round(time.Second))
	}
	return attributes
}
