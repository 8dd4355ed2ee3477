package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestLimits runs two replicas with three destinations: one that a file pauses and that has a rate, one whose rows
// expire, and another. The pause holds only the rows of its destination, also while the file has an invalid content,
// and ends when the file is removed. Then both replicas together keep the rate.
func TestLimits(t *testing.T) {
	t.Parallel()
	const rows, rate = 300, 100
	b, outbox := newNATS(t, endpoint(t, "TEST_NATS_URL")), newTable(t)
	slow, aged, other := b.topic(t), b.topic(t), b.topic(t)
	pause := filepath.Join(t.TempDir(), "pause")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(pause, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("true\n")
	env := outbox.env(b.url(), "OUTBOX_DESTINATIONS=slow,aged,other", "OUTBOX_DESTINATION_SLOW_TOPICS="+slow,
		"OUTBOX_DESTINATION_SLOW_RATE=100/s",
		"OUTBOX_DESTINATION_SLOW_PAUSE_FILE="+pause, "OUTBOX_DESTINATION_AGED_TOPICS="+aged,
		"OUTBOX_DESTINATION_AGED_MAX_AGE=1h")
	outbox.insert(slow, 0, rows, 50)
	outbox.insert(aged, 1000, 5, 1)
	outbox.insert(other, 2000, rows, 50)
	outbox.Exec(t, "update outbox_messages set inserted_at = now() - interval '2 hours' where topic = $1 and seq % 2 = 0",
		aged)
	old := outbox.count("topic = $1 and inserted_at < now() - interval '1 hour'", aged)
	replicas := []*relay{startRelay(t, env), startRelay(t, env)}
	for _, r := range replicas {
		r.awaitReady()
	}
	await(t, "both relay", func() bool { return replicas[0].owns(8) && replicas[1].owns(8) })
	await(t, "only what is paused is left", func() bool { return outbox.count(isPending) == rows })
	if n := outbox.count("last_error like 'expired%' and failed_at is not null"); n != old || n == 0 {
		t.Errorf("%d of %d old rows have expired", n, old)
	}
	r := replicas[0]
	await(t, "the paused rows are counted", func() bool {
		return r.metric(`rows_held{destination="slow",reason="paused"}`) == "300" &&
			r.metric(`pending_rows{destination="slow"}`) == "300" &&
			r.metric(`pending_rows{destination="other"}`) == "0" && r.metric("ready") == "1"
	})
	expired := 0
	for _, r := range replicas {
		if r.metric(`rows_failed_total{destination="aged",reason="expired"}`) != "0" {
			expired++
		}
	}
	if expired == 0 {
		t.Error("no replica has counted a row that expired")
	}
	if status, body := r.get("/readyz?verbose"); status != 200 || !strings.Contains(body, "destination slow ok: paused") {
		t.Errorf("readiness is %d:\n%s", status, body)
	}
	if code, _, problems := runCommand(t, env, "drain", "--timeout", "30s"); code != 3 ||
		!strings.Contains(problems, "paused 300") {
		t.Errorf("the drain ends with %d: %s", code, problems)
	}
	write("maybe")
	warnings := func() (n int) {
		for _, line := range r.records("WARN") {
			if strings.Contains(line.Msg, "pause file") {
				n++
			}
		}
		return n
	}
	await(t, "the log reports the file", func() bool { return warnings() > 0 })
	if n := outbox.count(isPending); n != rows {
		t.Errorf("%d rows are pending", n)
	}
	if err := os.Remove(pause); err != nil {
		t.Fatal(err)
	}
	outbox.awaitDrained()
	if n := warnings(); n != 1 {
		t.Errorf("the log reports the file %d times", n)
	}
	took := pgtest.Value[float64](t, outbox.Schema,
		"select extract(epoch from max(relayed_at) - min(relayed_at))::float8 from outbox_messages where topic = $1", slow)
	if least := float64(rows-rate)/rate - 0.1; took < least {
		t.Errorf("%d rows were relayed within %v s", rows, took)
	}
	if got := len(b.received(t, slow)); got != rows {
		t.Errorf("%d of %d rows have arrived", got, rows)
	}
}

// TestSmallRate: a rate of one row a second, or of one a minute, lets the first row go at once and the others in their
// time.
func TestSmallRate(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("any", 0, 1, 1)
	if code, out, problems := runCommand(t, outbox.env("stdout:", "OUTBOX_RATE=1/m"), "drain"); code != 0 ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("one a minute: status %d: %s", code, problems)
	}
	outbox.insert("any", 1, 3, 3)
	if code, out, problems := runCommand(t, outbox.env("stdout:", "OUTBOX_RATE=60/m"), "drain"); code != 0 ||
		strings.Count(out, "\n") != 3 {
		t.Errorf("one a second: status %d: %s", code, problems)
	}
	took := pgtest.Value[float64](t, outbox.Schema,
		"select extract(epoch from max(relayed_at) - min(relayed_at))::float8 "+
			"from outbox_messages where (payload->>'n')::int > 0")
	if took < 1.5 { // the first mark may be late on a busy machine

		t.Errorf("three rows were relayed within %v s", took)
	}
}
