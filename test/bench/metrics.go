package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metrics are the relay's, by name and labels, without its prefix.
type metrics map[string]float64

func (p *program) metrics(ctx context.Context) (metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	m := metrics{}
	for line := range strings.Lines(string(body)) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			if value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
				m[strings.TrimPrefix(line[:at], "outbox_relay_")] = value
			}
		}
	}
	return m, nil
}

// sum adds up a metric over its labels, of the series that have all of some labels, such as stage="fetch".
func (m metrics) sum(name string, labels ...string) (total float64) {
	for series, value := range m {
		base, has, _ := strings.Cut(series, "{")
		if base == name && !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(has, label) }) {
			total += value
		}
	}
	return total
}

// stage returns the batches of a stage and the seconds that they took together.
func (m metrics) stage(name string) (batches, seconds float64) {
	label := `stage="` + name + `"`
	return m.sum("stage_duration_seconds_count", label), m.sum("stage_duration_seconds_sum", label)
}

// stages tells how busy the stages were, in percent of the time (more than 100 where batches overlap),
// and how large they were.
func (m metrics) stages(elapsed time.Duration) string {
	var b strings.Builder
	for _, stage := range []string{"fetch", "publish", "settle"} {
		count, sum := m.stage(stage)
		fmt.Fprintf(&b, "%s %.0f %% of the time in %.0f batches of %.1f ms; ", stage, 100*sum/elapsed.Seconds(), count, 1000*sum/max(count, 1))
	}
	fmt.Fprintf(&b, "%.0f rows published at once", m.sum("batch_rows_sum")/max(m.sum("batch_rows_count"), 1))
	return b.String()
}
