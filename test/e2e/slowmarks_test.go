package e2e

import (
	"fmt"
	"testing"
)

// TestSlowMarksOfOneDestination: a trigger that makes each mark of one destination slow makes the marks of another
// neither slow nor fail.
func TestSlowMarksOfOneDestination(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic, copies := b.topic(t), b.topic(t)
	outbox := newTable(t)
	env := outbox.env(b.url(), "OUTBOX_DESTINATIONS=orders,slow", "OUTBOX_DESTINATION_ORDERS_TOPIC="+topic,
		"OUTBOX_DESTINATION_SLOW_TOPIC="+copies, "OUTBOX_DESTINATION_SLOW_COLUMNS="+own("slow"))
	outbox.destination(env, "slow")
	outbox.Exec(t, `create function take_time() returns trigger language plpgsql as $slow$
		begin perform pg_sleep(0.01); return new; end $slow$`)
	outbox.Exec(t, "create trigger take_time before update of slow_relayed_at on outbox_messages for each row execute "+
		"function take_time()")
	const rows = 900
	r := startRelay(t, env)
	r.awaitReady()
	for i := range 6 {
		outbox.insert("any", i*rows/6, rows/6, 50)
	}
	took := await(t, "all is relayed by the destination whose marks are fast", func() bool {
		return outbox.count("relayed_at is null") == 0
	})
	if n := outbox.count("slow_relayed_at is not null"); n > rows/2 {
		t.Errorf("%d of %d rows are marked by the slow destination when the fast one has done all, in %v", n, rows, took)
	}
	await(t, "all is relayed", func() bool { return outbox.count("slow_relayed_at is null") == 0 })
	r.stop()
	for name, topic := range map[string]string{"fast": topic, "slow": copies} {
		if got := numbers(t, b.received(t, topic)); fmt.Sprint(got) != fmt.Sprint(once(rows, all)) {
			t.Errorf("%d rows have arrived at the %s destination, or some twice", len(got), name)
		}
	}
}
