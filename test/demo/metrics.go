package main

import (
	"context"
	"time"
)

// metrics are the values of a relay's /metrics that the demo shows.
type metrics struct {
	relayed int           // rows relayed since the process started, at all destinations
	owns    bool          // the replica owns shards; otherwise it is a standby
	oldest  time.Duration // age of the oldest pending row of any destination, 0 when there is none
}

// scrape reads the metrics of the running process, or keeps the last ones when it does not answer.
func (r *relay) scrape(ctx context.Context) {
	if m, err := r.Metrics(ctx); err == nil {
		r.seen.Store(&metrics{
			relayed: int(m.Sum("rows_relayed_total")), owns: m.Sum("shards_owned") > 0,
			oldest: time.Duration(m.Max("oldest_pending_age_seconds") * float64(time.Second)),
		})
	}
}

// look returns the state of the relay, with the most recent metrics available.
func (r *relay) look(ctx context.Context) actor {
	a := actor{name: r.name, doing: "stands by"}
	select {
	case <-r.Exited():
		a.doing = "has stopped"
	default:
		r.scrape(ctx)
	}
	if m := r.seen.Load(); m != nil {
		a.metrics = *m
	}
	switch {
	case a.doing == "has stopped":
		a.oldest = 0 // the last measurement is old
	case r.leaving.Load():
		a.doing = "stops"
	case a.owns:
		a.doing = "relays"
	}
	return a
}
