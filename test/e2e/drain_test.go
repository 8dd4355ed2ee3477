package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestDrain: drain ends with 0 when all rows are relayed or failed, and with 3 and the reasons when rows remain.
func TestDrain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, missing, outbox := b.topic(t), uniqueTopic(), newTable(t)
		if code, _, problems := runCommand(t, outbox.env(b.url()), "drain"); code != 0 {
			t.Errorf("of an empty table: status %d: %s", code, problems)
		}
		outbox.insert(topic, 0, 5000, 50)
		outbox.Exec(t, `insert into outbox_messages (topic, payload, headers) values ($1, '{"n": 0}',
			'{"message-id": "mine"}')`, topic)
		if code, _, problems := runCommand(t, outbox.env(b.url()), "drain", "--timeout", "30s"); code != 0 {
			t.Errorf("status %d: %s", code, problems)
		}
		if pending, failed := outbox.count(isPending), outbox.count(isFailed); pending != 0 || failed != 1 {
			t.Errorf("%d rows are pending, %d have failed", pending, failed)
		}

		outbox.insert(missing, 5000, 10, 10)
		outbox.insert(topic, 5010, 10, 10)
		started := time.Now()
		code, _, problems := runCommand(t, outbox.env(b.url()), "drain", "--timeout", "1500ms")
		if code != 3 {
			t.Errorf("with a missing topic: status %d", code)
		}
		if last := problems[strings.LastIndex(strings.TrimSpace(problems), "\n")+1:]; !strings.Contains(last, "topology") ||
			!strings.Contains(last, "left") {
			t.Errorf("the end of the drain says %q", last)
		} else {
			t.Log(strings.TrimSpace(last))
		}
		if took := time.Since(started); took < 1500*time.Millisecond || took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if pending := outbox.count(isPending); pending < 10 || pending > 20 {
			t.Errorf("%d rows are pending", pending)
		}
	})
}

// TestDrainBesideRelay: any replica may relay the rows, and a drain that does not own the outbox waits for the replica
// that does.
func TestDrainBesideRelay(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, outbox := b.topic(t), newTable(t)
	startRelay(t, outbox.env(b.url())).awaitReady()
	outbox.insert(topic, 0, manyRows, manyKeys)
	if code, _, problems := runCommand(t, outbox.env(b.url()), "drain", "--timeout", "30s"); code != 0 {
		t.Errorf("status %d: %s", code, problems)
	}
	if pending := outbox.count(isPending); pending != 0 {
		t.Errorf("%d rows are pending", pending)
	}
	check(t, outbox, b.received(t, topic))
}

// TestDrainWithoutDatabase: a drain that cannot reach the database has stopped before all was done, and says why it
// cannot count the rows.
func TestDrainWithoutDatabase(t *testing.T) {
	t.Parallel()
	code, _, problems := runCommand(t,
		settings{"OUTBOX_DATABASE_URL=postgres://u:hunter2@" + nobody + "/db", "OUTBOX_PUBLISH_URL=stdout:"},
		"drain", "--timeout", "1s")
	if code != 3 {
		t.Errorf("status %d", code)
	}
	if !strings.Contains(problems, "could not be reached") || !strings.Contains(problems, "connection refused") ||
		strings.Contains(problems, "hunter2") {
		t.Errorf("it says %s", problems)
	}
	if last := problems[strings.LastIndex(strings.TrimSpace(problems), "\n")+1:]; strings.Count(last,
		"connection refused") != 1 ||
		!strings.HasPrefix(last, "outbox-relay: ") {
		t.Errorf("it ends with %q", last)
	}
}
