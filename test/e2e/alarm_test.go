package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAlarm: RabbitMQ raises a memory alarm while rows flow, and reads nothing more from publishers. No attempt is
// spent, readiness and doctor name the reason, and rows flow at once when the alarm is over.
func TestAlarm(t *testing.T) {
	t.Parallel()
	set := newServices(t, "alarm", "SERVICES_MODE=native")
	set.run("up", "rabbitmq")
	watermark := func(share string) {
		t.Helper()
		ctl := exec.Command(filepath.Join(set.Dir, "bin", "rabbitmqctl"), "set_vm_memory_high_watermark", share)
		if out, err := ctl.CombinedOutput(); err != nil {
			t.Fatalf("rabbitmqctl: %v: %s", err, out)
		}
	}
	b := newRabbit(t, set.address("TEST_AMQP_URL"))
	topic, outbox := b.topic(t), newTable(t)
	const rows, keys = 2000, 50
	env := outbox.env(b.url(), "OUTBOX_PUBLISH_TIMEOUT=1s",
		"OUTBOX_AMQP_MANAGEMENT_URL="+set.address("TEST_AMQP_MANAGEMENT_URL"))
	r := startRelay(t, env)
	r.awaitReady()
	outbox.insert(topic, 0, rows, keys)
	outbox.awaitDrained()

	watermark("0.0001")
	outbox.insert(topic, rows, rows, keys)
	const reason = "has blocked publishing (low on memory)"
	r.awaitNotReady(reason, "free memory")
	if d := doctor(t, env); !d.says("error", "alarms", reason) {
		t.Errorf("doctor says %+v", d.worse())
	}
	awaitRetries(t, r, 3)
	if up := r.metric(`destination_up{destination="default"}`); up != "0" {
		t.Errorf("destination_up is %q during the alarm", up)
	}
	if pending := outbox.count(isPending); pending != rows {
		t.Errorf("%d rows are pending during the alarm, want %d", pending, rows)
	}
	outbox.checkUnspent(everyRow)
	if said := strings.Count(r.Log(), "low on memory"); said > 5 {
		t.Errorf("%d log lines report the alarm", said)
	}

	watermark("0.4")
	over := time.Now()
	await(t, "rows flow", func() bool { return outbox.count(isRelayed) > rows })
	t.Logf("rows flowed %v after the alarm was over", time.Since(over).Round(time.Millisecond))
	outbox.awaitDrained()
	r.awaitReady()
	outbox.checkUnspent(everyRow)
	checkBounded(t, outbox, b.received(t, topic), 0) // the alarm outlasts the publish timeout, and no connection ends
	r.stop()
}
