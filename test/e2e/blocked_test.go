package e2e

import (
	"strings"
	"testing"
)

// TestBlockedByFailed: a key waits for its failed row, also after a restart of the relay, until an operator repairs and
// retries that row, or discards it. The other keys flow.
func TestBlockedByFailed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		const rows, keys = 600, 6
		outbox.insert(topic, 0, rows, keys)
		// No broker accepts these two rows in the middle of k1 and k2.
		outbox.Exec(t, `update outbox_messages set headers = '{"message-id": "mine"}' where (payload ->> 'n')::int in (301,
			302)`)
		env := outbox.env(b.url(), "OUTBOX_ON_FAILED=block")
		first := startRelay(t, env)
		const waiting = 49 + 49 // after the two bad rows
		relayed := func() bool { return outbox.count(isRelayed) == rows-waiting-2 && outbox.count(isFailed) == 2 }
		blocked := func(r *relay) func() bool {
			return func() bool {
				return r.metric(`blocked_keys{destination="default"}`) == "2" &&
					r.metric(`rows_held{destination="default",reason="behind_failed"}`) == "2"
			}
		}
		await(t, "all but the blocked rows are relayed", relayed)
		await(t, "the metrics show the blocked keys", blocked(first))
		first.stop()

		second := startRelay(t, env)
		await(t, "the keys are blocked after a restart", blocked(second))
		if !relayed() {
			t.Errorf("%d rows are relayed, want %d", outbox.count(isRelayed), rows-waiting-2)
		}
		outbox.Exec(t,
			`update outbox_messages set failed_at = null, last_error = null, attempt = default, headers = '{}' where (payload
				->> 'n')::int = 301`)
		outbox.Exec(t, `delete from outbox_messages where (payload ->> 'n')::int = 302`)
		took := await(t, "the freed keys flow", func() bool { return outbox.count(isRelayed) == rows-1 })
		t.Logf("relayed %v after they were freed", took)
		check(t, outbox, b.received(t, topic))
		await(t, "no key is blocked", func() bool { return second.metric(`blocked_keys{destination="default"}`) == "0" })
	})
}

// TestBlockNeedsAnIndex checks the reported remedy for a table in which the failed rows could only be found by reading
// all of it.
func TestBlockNeedsAnIndex(t *testing.T) {
	t.Parallel()
	outbox := newShape(t, strings.Split(recommended(t), "-- For counting")[0])
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	r := startRelay(t, outbox.env(b.url(), "OUTBOX_ON_FAILED=block"))
	r.awaitNotReady("OUTBOX_ON_FAILED=block", "create index concurrently")
	outbox.Exec(t, "create index concurrently on outbox_messages (failed_at) where failed_at is not null")
	r.awaitReady()
}
