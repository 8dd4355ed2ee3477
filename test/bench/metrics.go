package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// stage returns the number of batches of a stage and the seconds that they took together.
func stage(m testkit.Metrics, name string) (batches, seconds float64) {
	label := `stage="` + name + `"`
	return m.Sum("stage_duration_seconds_count", label), m.Sum("stage_duration_seconds_sum", label)
}

// stages reports how busy the stages were, in percent of the time (more than 100 where batches overlap), and how large
// the batches were.
func stages(m testkit.Metrics, elapsed time.Duration) string {
	var b strings.Builder
	for _, name := range []string{"fetch", "publish", "settle"} {
		count, sum := stage(m, name)
		fmt.Fprintf(&b, "%s %.0f %% of the time in %.0f batches of %.1f ms; ", name, 100*sum/elapsed.Seconds(), count,
			1000*sum/max(count, 1))
	}
	fmt.Fprintf(&b, "%.0f rows published at once", m.Sum("batch_rows_sum")/max(m.Sum("batch_rows_count"), 1))
	return b.String()
}
