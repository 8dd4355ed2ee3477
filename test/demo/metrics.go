package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metrics are what the demo shows of a relay's /metrics.
type metrics struct {
	relayed int           // rows since the process started
	owns    bool          // it relays; otherwise it stands by
	oldest  time.Duration // age of the oldest pending row, 0 when there is none
}

// scrape reads the metrics of the running process, or keeps the last ones when it does not answer.
func (r *relay) scrape(ctx context.Context) {
	if status, text, err := r.ask(ctx, "/metrics"); err == nil && status == http.StatusOK {
		m := parseMetrics(text)
		r.seen.Store(&m)
	}
}

// look says what the relay does, with metrics as new as can be had.
func (r *relay) look(ctx context.Context) actor {
	a := actor{name: r.name, doing: "stands by"}
	select {
	case <-r.exited:
		a.doing = "has stopped"
	default:
		r.scrape(ctx)
	}
	if m := r.seen.Load(); m != nil {
		a.metrics = *m
	}
	switch {
	case a.doing == "has stopped":
		a.oldest = 0 // its last look is an old one
	case r.leaving.Load():
		a.doing = "stops"
	case a.owns:
		a.doing = "relays"
	}
	return a
}

// parseMetrics reads the text format of Prometheus, as far as the demo needs it: one sample a line, the
// name, labels and the value.
func parseMetrics(text string) metrics {
	var m metrics
	for line := range strings.Lines(text) {
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[space:]), 64)
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(line[:space], "{")
		switch name {
		case "outbox_relay_rows_relayed_total":
			m.relayed += int(value) // of all destinations
		case "outbox_relay_shards_owned":
			m.owns = value > 0
		case "outbox_relay_oldest_pending_age_seconds":
			m.oldest = max(m.oldest, time.Duration(value*float64(time.Second))) // of all destinations
		}
	}
	return m
}
