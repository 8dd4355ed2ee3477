package e2e

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestWakes lets a relay that polls rarely fall asleep, and then wakes it in every possible way.
func TestWakes(t *testing.T) {
	t.Parallel()
	const insert = `insert into outbox_messages (topic, payload) values ('orders', '{}')`
	for name, c := range map[string]struct {
		source string // label of wakeups_total
		wake   func(*relay, *table)
	}{
		"doorbell over HTTP": {"doorbell", func(r *relay, tb *table) {
			tb.Exec(t, insert)
			if status, _ := r.ask("POST", "/doorbell"); status != 202 {
				t.Errorf("the doorbell answers %d", status)
			}
		}},
		"notify": {"listen", func(_ *relay, tb *table) {
			tb.Exec(t, insert)
			tb.Exec(t, "select pg_notify($1, '')", tb.Name)
		}},
		"doorbell trigger": {"listen", func(_ *relay, tb *table) { tb.Exec(t, insert) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outbox := newTable(t)
			channel := outbox.Name // a separate channel: a notification on the default one would wake the relay
			if c.source != "listen" {
				channel = ""
			}
			env := outbox.env("stdout:", "OUTBOX_LISTEN_CHANNEL="+channel, "OUTBOX_POLL_INTERVAL=1h")
			if name == "doorbell trigger" {
				code, ddl, problems := runCommand(t, env, "schema", "--doorbell")
				if code != 0 {
					t.Fatalf("schema --doorbell: status %d: %s", code, problems)
				}
				outbox.Exec(t, "drop table outbox_messages")
				outbox.Exec(t, ddl)
			}
			r := startRelay(t, env)
			r.awaitReady()
			if c.source == "listen" {
				await(t, "the relay listens", func() bool { return r.metric("listener_up") == "1" })
			}
			asleep(t, r)
			woken := time.Now()
			c.wake(r, outbox)
			outbox.awaitDrained()
			took := time.Since(woken)
			t.Logf("relayed after %v", took.Round(time.Millisecond))
			if took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := r.metric(`wakeups_total{source="` + c.source + `"}`); n == "" || n == "0" {
				t.Errorf("wakeups from %s: %q", c.source, n)
			}
			late := pgtest.Value[float64](t, outbox.Schema,
				"select extract(epoch from max(relayed_at - inserted_at))::float8 from outbox_messages")
			if late > 1 {
				t.Errorf("the row was marked %v s after its insert", late)
			}
		})
	}
}

// TestWakesOfOneAmongSeveral wakes the replica that has the row, although only another replica is notified, or the
// database records several sleeping ones.
func TestWakesOfOneAmongSeveral(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]bool{"doorbell over HTTP": false, "doorbell trigger": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outbox := newTable(t)
			env := outbox.env("stdout:", "OUTBOX_LISTEN_CHANNEL="+outbox.Name, "OUTBOX_POLL_INTERVAL=1h")
			if trigger {
				code, ddl, problems := runCommand(t, env, "schema", "--doorbell")
				if code != 0 {
					t.Fatalf("schema --doorbell: status %d: %s", code, problems)
				}
				outbox.Exec(t, "drop table outbox_messages")
				outbox.Exec(t, ddl)
			}
			replicas := []*relay{startRelay(t, env), startRelay(t, env)}
			for _, r := range replicas {
				await(t, "each has half of the shards and listens", func() bool {
					return r.metric("shards_owned") == "8" && r.metric("listener_up") == "1"
				})
			}
			for _, r := range replicas {
				asleep(t, r)
			}
			woken := time.Now()
			outbox.Exec(t, `insert into outbox_messages (topic, payload) select 'orders', '{}' from generate_series(1, 64)`)
			if !trigger {
				if status, _ := replicas[0].ask("POST", "/doorbell"); status != 202 {
					t.Errorf("the doorbell answers %d", status)
				}
			}
			outbox.awaitDrained()
			if took := time.Since(woken); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			for i, r := range replicas {
				if n := r.metric(`rows_relayed_total{destination="default"}`); n == "" || n == "0" {
					t.Errorf("replica %d relayed nothing", i)
				}
			}
		})
	}
}

// asleep waits until the relay has made no read for two seconds: each pause is twice as long as the previous one, so
// the next read is at least as far away.
func asleep(t testing.TB, r *relay) {
	t.Helper()
	reads := func() string { return r.metric(`stage_duration_seconds_count{destination="default",stage="fetch"}`) }
	before, since := reads(), time.Now()
	await(t, "the relay sleeps", func() bool {
		if now := reads(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}
