package testkit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Metrics are the samples of /metrics by name and labels, such as shards_owned or rows_relayed_total{topic="orders"},
// without the prefix outbox_relay_.
type Metrics map[string]float64

// Metrics reads /metrics.
func (r *Relay) Metrics(ctx context.Context) (Metrics, error) {
	status, body, err := r.Ask(ctx, http.MethodGet, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("read metrics: status %d", status)
	}
	return parseMetrics(body), nil
}

// parseMetrics reads the text format of Prometheus: one sample a line, with name, labels and value.
func parseMetrics(text string) Metrics {
	m := Metrics{}
	for line := range strings.Lines(text) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			if value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
				m[strings.TrimPrefix(line[:at], "outbox_relay_")] = value
			}
		}
	}
	return m
}

// each calls do with the samples of a metric that have all of the given labels, such as stage="fetch".
func (m Metrics) each(name string, labels []string, do func(value float64)) {
	for series, value := range m {
		base, has, _ := strings.Cut(series, "{")
		if base == name && !slices.ContainsFunc(labels, func(label string) bool {
			return !strings.Contains(has,
				label)
		}) {
			do(value)
		}
	}
}

// Sum adds up the samples of a metric that have all of the given labels.
func (m Metrics) Sum(name string, labels ...string) (total float64) {
	m.each(name, labels, func(value float64) { total += value })
	return total
}

// Max returns the largest sample of a metric that has all of the given labels, or 0 when none is above 0.
func (m Metrics) Max(name string, labels ...string) (largest float64) {
	m.each(name, labels, func(value float64) { largest = max(largest, value) })
	return largest
}
