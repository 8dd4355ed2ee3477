package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// stages tells from the relay's metrics how busy its stages were over a drain, in percent of the time
// (more than 100 where batches overlap), and how large they were. It is "" when they cannot be read.
func stages(ctx context.Context, addr string, elapsed time.Duration) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		if name, text, found := strings.Cut(strings.TrimSpace(line), " "); found {
			if value, err := strconv.ParseFloat(text, 64); err == nil {
				values[strings.TrimPrefix(name, "outbox_relay_")] = value
			}
		}
	}
	var b strings.Builder
	for _, stage := range []string{"fetch", "publish", "settle"} {
		sum, count := values[`stage_duration_seconds_sum{stage="`+stage+`"}`], values[`stage_duration_seconds_count{stage="`+stage+`"}`]
		fmt.Fprintf(&b, "%s %.0f %% of the time in %.0f batches of %.1f ms; ", stage, 100*sum/elapsed.Seconds(), count, 1000*sum/max(count, 1))
	}
	fmt.Fprintf(&b, "%.0f rows published at once", values["batch_rows_sum"]/max(values["batch_rows_count"], 1))
	return b.String()
}
