package e2e

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// contract lists the names that dashboards and alerts rely on.
var contract = []string{
	"rows_relayed_total", "publish_errors_total", "rows_failed_total", "rows_held", "relay_latency_seconds_count",
	"stage_duration_seconds_count", "batch_rows_count", "in_flight_rows", "pending_rows", "scheduled_rows",
	"oldest_pending_age_seconds",
	"failed_rows",
	"blocked_keys", "order_violations_total", "republished_total", "shards_owned", "shards_unowned", "replicas",
	"takeovers_total",
	"wakeups_total", "database_up", "destination_up", "listener_up", "build_info", "ready", "table_bytes",
	"table_dead_rows",
	"unexpected_duplicates_total",
}

// TestMetrics compares all series that exist from the start, before any row, with a golden file, and looks for every
// name of the contract once a row has been relayed.
func TestMetrics(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	r := startRelay(t, outbox.env(b.url()))
	r.awaitReady()
	await(t, "listener_up", func() bool { return r.metric("listener_up") == "1" })
	await(t, "the first read", func() bool {
		return r.metric(`stage_duration_seconds_count{destination="default",stage="fetch"}`) != ""
	})
	_, body := r.get("/metrics")
	const golden = "testdata/metrics.txt"
	got := series(body)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the series are not those of %s (go test -run TestMetrics -update writes it):\n%s", golden, got)
	}
	if strings.Contains(body, "otel_scope") || strings.Contains(body, "target_info") {
		t.Error("labels of the exporter's own are there")
	}

	outbox.insert(b.topic(t), 0, 1, 1)
	outbox.awaitDrained()
	await(t, "the row is counted", func() bool { return r.metric(`rows_relayed_total{destination="default"}`) == "1" })
	_, body = r.get("/metrics")
	got = series(body)
	for _, name := range contract {
		if !regexp.MustCompile(`(?m)^outbox_relay_` + name + `($|\{)`).MatchString(got) {
			t.Errorf("%s is missing", name)
		}
	}
}

// series returns the relay's own series, sorted, without values and buckets.
func series(metrics string) string {
	version := regexp.MustCompile(`(commit|go_version|version)="[^"]*"`)
	var names []string
	for line := range strings.Lines(metrics) {
		name := line[:max(0, strings.LastIndexByte(line, ' '))]
		if strings.HasPrefix(name, "outbox_relay_") && !strings.Contains(name, "_bucket") {
			names = append(names, version.ReplaceAllString(name, `$1="…"`))
		}
	}
	slices.Sort(names)
	return strings.Join(names, "\n") + "\n"
}
