package scene

import (
	"slices"
	"strings"
	"testing"
)

// Every row goes to one of the destinations with common columns, and to each destination that has columns of its own.
func TestRowsAreDivided(t *testing.T) {
	t.Parallel()
	s := New(Destinations, "run")
	for _, topic := range append(slices.Concat(s.Topics, s.Absent), "no..subject") {
		common := 0
		for _, d := range s.Destinations {
			switch {
			case d.Columns == "" && d.Takes(topic):
				common++
			case d.Columns != "" && !d.Takes(topic):
				t.Errorf("%s does not take %s", d.Name, topic)
			}
		}
		if common != 1 {
			t.Errorf("%d destinations with common columns take %s", common, topic)
		}
	}
}

// Each published topic identifies the destination that has published it.
func TestTopicsDetermineTheDestination(t *testing.T) {
	t.Parallel()
	s := New(Destinations, "run")
	of := map[string]string{}
	for _, d := range s.Destinations {
		for _, topic := range d.Topics(slices.Concat(s.Topics, s.Absent)) {
			if other, known := of[topic]; known {
				t.Errorf("%s and %s publish %s", other, d.Name, topic)
			}
			of[topic] = d.Name
		}
	}
	if of["run-absent-07-audit"] != "audit" || of["run-second"] != "rest" || of["run-dead"] != "dead" {
		t.Errorf("%v", of)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	address := func(destination int) string { return string(rune('a' + destination)) }
	url := func(address string) string { return "nats://" + address }
	if got := New(One, "run").Environment(address, url, "/dir"); !slices.Equal(got,
		[]string{"OUTBOX_PUBLISH_URL=nats://a"}) {
		t.Errorf("%q", got)
	}
	got := New(Destinations, "run").Environment(address, url, "/dir")
	for _, want := range []string{
		"OUTBOX_DESTINATIONS=orders,rest,audit,dead,buried,notice", "OUTBOX_DESTINATION_AUDIT_PUBLISH_URL=nats://c",
		"OUTBOX_DESTINATION_AUDIT_PAUSE_FILE=/dir/pause-audit", "OUTBOX_DESTINATION_ORDERS_TOPICS=run-first,run-absent-*",
		"OUTBOX_DESTINATION_NOTICE_COLUMNS=relayed_at:notice_relayed_at", "OUTBOX_DESTINATION_DEAD_FAILED_OF=orders",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
}
