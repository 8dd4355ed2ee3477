package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestOperate acts on rows of a running relay by commands: a row that blocks its key is retried, another one is
// discarded and kept, and all rows are published again, each key in its order.
func TestOperate(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, outbox := b.topic(t), newTable(t)
	const rows, keys = 600, 6
	outbox.insert(topic, 0, rows, keys)
	outbox.Exec(t, `update outbox_messages set headers = '{"message-id": "mine"}' where (payload ->> 'n')::int in (301,
		302)`)
	env := outbox.env(b.url(), "OUTBOX_ON_FAILED=block")
	r := startRelay(t, env)
	await(t, "two keys are blocked", func() bool {
		return outbox.count(isFailed) == 2 && r.metric(`blocked_keys{destination="default"}`) == "2" &&
			outbox.count(isRelayed) == rows-100
	})
	ours := append(env, "OUTBOX_HTTP_ADDR="+r.Address)
	command := func(want string, args ...string) string {
		t.Helper()
		code, out, problems := runCommand(t, ours, args...)
		if code != 0 || !strings.Contains(out+problems, want) {
			t.Fatalf("%v: status %d, without %q:\n%s%s", args, code, want, out, problems)
		}
		return out
	}
	var report struct {
		Process      map[string]any
		Ownership    struct{ Owned int }
		Destinations []struct{ Due, Failed, Held int }
	}
	if err := json.Unmarshal([]byte(command("", "status", "--json")), &report); err != nil {
		t.Fatal(err)
	}
	if d := report.Destinations[0]; d.Due != 98 || d.Failed != 2 || d.Held == 0 || report.Process == nil ||
		report.Ownership.Owned != 16 {
		t.Errorf("the status is %+v", report)
	}
	id := func(n int) string {
		return pgtest.Value[string](t, outbox.Schema,
			"select id::text from outbox_messages where (payload ->> 'n')::int = $1", n)
	}
	outbox.Exec(t, `update outbox_messages set headers = '{}' where (payload ->> 'n')::int = 301`)
	command("retried: 1 row", "failed", "retry", id(301))
	command("discarded: 1 row", "failed", "discard", "--keep", "--reason", "of no matter", id(302))
	await(t, "both keys flow", func() bool {
		return outbox.count(isRelayed) == rows && r.metric(`blocked_keys{destination="default"}`) == "0"
	})
	if out := command("", "failed", "list", "--json"); out != "" {
		t.Errorf("failed rows are left:\n%s", out)
	}
	first := b.received(t, topic)
	if len(first) != rows-1 {
		t.Fatalf("%d messages arrived, not %d", len(first), rows-1)
	}
	command("replayed: 599 rows", "replay", "--topic", topic, "--yes")
	await(t, "all are relayed again", func() bool { return outbox.count(isRelayed) == rows })
	again, last := map[string]int{}, map[string]int{}
	for _, d := range b.received(t, topic) {
		if again[d.id]++; again[d.id] < 2 {
			continue
		}
		if n := d.number(t); n < last[d.key] {
			t.Errorf("of key %s number %d comes again after %d", d.key, n, last[d.key])
		} else {
			last[d.key] = n
		}
	}
	for id, n := range again {
		if n != 2 {
			t.Errorf("message %s came %d times", id, n)
		}
	}
}

// TestPruneAfter deletes relayed rows while the relay runs, and no others.
func TestPruneAfter(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.Exec(t, "create index on outbox_messages (relayed_at) where relayed_at is not null")
	outbox.Exec(t, "insert into outbox_messages (topic, payload, failed_at) values ('x', '{}', now() - interval '1 hour')")
	outbox.insert("x", 0, 3000, 10)
	r := startRelay(t, outbox.env("stdout:", "OUTBOX_PRUNE_AFTER=1s"))
	await(t, "relayed rows are deleted", func() bool { return outbox.count("true") == 1 })
	await(t, "the deletion is logged", func() bool {
		return strings.Contains(r.Log(), `"msg":"deleted old rows","rows":`)
	})
	r.stop()
}
