package testkit

import "testing"

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := parseMetrics(`# HELP outbox_relay_rows_relayed_total Rows that a broker has acknowledged.
# TYPE outbox_relay_rows_relayed_total counter
outbox_relay_rows_relayed_total{destination="a b"} 1200
outbox_relay_rows_relayed_total{destination="other"} 3.4e+01
outbox_relay_rows_relayed_total_created 99
outbox_relay_shards_owned 16
outbox_relay_oldest_pending_age_seconds{destination="a b"} 0.25
outbox_relay_oldest_pending_age_seconds{destination="other"} 0
`)
	if got := m.Sum("rows_relayed_total"); got != 1234 {
		t.Errorf("relayed %v", got)
	}
	if got := m.Sum("rows_relayed_total", `destination="other"`); got != 34 {
		t.Errorf("relayed to one %v", got)
	}
	if got := m.Max("oldest_pending_age_seconds"); got != 0.25 {
		t.Errorf("oldest %v", got)
	}
	if m["shards_owned"] != 16 || m.Sum("none") != 0 || m.Max("none") != 0 {
		t.Errorf("metrics %v", m)
	}
}
