package main

import (
	"testing"
	"time"
)

func TestParseMetrics(t *testing.T) {
	t.Parallel()
	got := parseMetrics(`# HELP outbox_relay_rows_relayed_total Rows that a broker has acknowledged.
# TYPE outbox_relay_rows_relayed_total counter
outbox_relay_rows_relayed_total{destination="a b"} 1200
outbox_relay_rows_relayed_total{destination="other"} 3.4e+01
outbox_relay_rows_relayed_total_created 99
outbox_relay_shards_owned 16
outbox_relay_oldest_pending_age_seconds{destination="a b"} 0.25
outbox_relay_oldest_pending_age_seconds{destination="other"} 0
`)
	if want := (metrics{relayed: 1234, owns: true, oldest: 250 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
