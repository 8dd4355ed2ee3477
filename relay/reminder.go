package relay

import (
	"context"
	"time"
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

// due notes whether a part is in trouble now. It reports whether the log is to repeat that, and how long it has been
// known.
func (m reminders) due(part string, trouble bool, now time.Time) (lasting time.Duration, due bool) {
	last, known := m[part]
	switch {
	case !trouble:
		delete(m, part)
	case !known:
		m[part] = reminder{now, now} // the part that notices the trouble logs its beginning
	case now.Sub(last.logged) >= remindEvery:
		m[part] = reminder{last.since, now}
		return now.Sub(last.since).Round(time.Second), true
	}
	return 0, false
}

// remind logs continuing outages.
func (r *Relay) remind(ctx context.Context) {
	m := reminders{}
	every(ctx, remindLook, func(now time.Time) { r.remindOf(ctx, m, now) })
}

func (r *Relay) remindOf(ctx context.Context, m reminders, now time.Time) {
	r.lookAtCommits(ctx)
	trouble := r.databaseTrouble()
	if lasting, due := m.due("database", trouble != nil, now); due {
		r.config.Logger.Warn("database still cannot be used", "for", lasting, "error", trouble)
	}
	r.remindOfUntaken(ctx, m, now)
	for _, d := range r.config.Destinations {
		err, paused, held := d.unusable(), d.paused.Load(), d.snapshot().Note
		if lasting, due := m.due("broker of "+d.Name, err != nil && !paused, now); due {
			r.config.Logger.Warn("destination still cannot be used",
				"destination", d.Name, "for", lasting, "error", err)
		}
		if lasting, due := m.due("topics of "+d.Name, held != "" && err == nil && !paused, now); due {
			r.config.Logger.Warn("topics are still held", "destination", d.Name, "for", lasting, "reason", held)
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
