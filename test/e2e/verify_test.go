package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// A discrepancy is a line of `verify --json`: a row, or the summary of a destination.
type discrepancy struct {
	ID, Problem, Before, Place                string
	Rows, Missing, Gone, Duplicated, Messages int
	Disordered                                int `json:"out_of_order"`
	Unknown                                   int `json:"not_compared"`
}

// verified runs verify on all rows and returns the listed rows and the sum.
func verified(t *testing.T, env settings, want int, args ...string) (rows []discrepancy, sum discrepancy) {
	t.Helper()
	args = append([]string{"verify", "--json", "--until", time.Now().Add(time.Hour).Format(time.RFC3339)}, args...)
	code, out, problems := runCommand(t, env, args...)
	if code != want {
		t.Fatalf("%v: status %d, not %d:\n%s%s", args, code, want, out, problems)
	}
	for line := range strings.Lines(out) {
		var d discrepancy
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %v: %s", args, err, line)
		}
		rows = append(rows, d)
	}
	return rows[:len(rows)-1], rows[len(rows)-1]
}

// TestVerify finds messages that are missing, duplicate or out of order, in each format that stores the ids
// differently.
func TestVerify(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(strings.TrimPrefix(topic, "e2e"), 0, 300, 7)
		env := outbox.env(b.url(), "OUTBOX_TOPIC=e2e{topic}",
			"OUTBOX_PROFILE="+map[string]string{"kafka": "cloudevents"}[b.name()])
		drained := func() {
			t.Helper()
			if code, _, problems := runCommand(t, env, "drain"); code != 0 {
				t.Fatalf("drain: status %d: %s", code, problems)
			}
		}
		drained()
		if b.name() == "rabbitmq" {
			if code, _, problems := runCommand(t, env, "verify"); code != 2 || !strings.Contains(problems, "RabbitMQ") {
				t.Errorf("status %d: %s", code, problems)
			}
			return
		}
		if rows, sum := verified(t, env, 0); len(rows) > 0 || sum.Rows != 300 {
			t.Fatalf("of rows that are all there: %+v, %+v", rows, sum)
		}
		id := func(n int) string {
			t.Helper()
			return pgtest.Value[string](t, outbox.Schema,
				"select id::text from outbox_messages where (payload ->> 'n')::int = $1", n)
		}
		again := id(20)
		await(t, "a message is there twice", func() bool { // when the stream has forgotten its id
			outbox.Exec(t, "update outbox_messages set relayed_at = null where id = $1", again)
			drained()
			return len(b.received(t, topic)) == 301
		})
		if rows, sum := verified(t, env, 0); len(rows) != 1 || rows[0].ID != again || rows[0].Problem != "duplicated" ||
			rows[0].Messages != 2 || sum.Duplicated != 1 {
			t.Errorf("of a duplicate: %+v, %+v", rows, sum)
		}
		// Rows 100 and 107 have the same key.
		first, second, spare := id(100), id(107), "00000000-0000-0000-0000-000000000000"
		for _, change := range [][2]string{{first, spare}, {second, first}, {spare, second}} {
			outbox.Exec(t, "update outbox_messages set id = $2 where id = $1", change[0], change[1])
		}
		rows, sum := verified(t, env, 1, "--key", "k2")
		if len(rows) != 1 || rows[0].ID != first || rows[0].Before != second || sum.Disordered != 1 {
			t.Errorf("of two that have changed places: %+v, %+v", rows, sum)
		}
		lost := id(200)
		outbox.Exec(t, "update outbox_messages set id = gen_random_uuid() where id = $1", lost)
		lost = id(200)
		rows, sum = verified(t, env, 1, "--topic", "*", "--id", lost+","+id(201))
		if len(rows) != 1 || rows[0].ID != lost || rows[0].Problem != "missing" || sum.Rows != 2 {
			t.Errorf("of one that is missing: %+v, %+v", rows, sum)
		}
		if _, sum := verified(t, env, 1); sum.Missing != 1 || sum.Duplicated != 1 || sum.Disordered != 1 || sum.Gone != 0 {
			t.Errorf("of all: %+v", sum)
		}
	})
}

// TestVerifyRemoved: verify distinguishes messages that were deleted from a stream from those that the stream no longer
// keeps.
func TestVerifyRemoved(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic, outbox := b.topic(t), newTable(t)
	env := outbox.env(b.url())
	for from := 0; from < 100; from += 50 { // the other rows are marked later than the first ones
		outbox.insert(topic, from, 50, 5)
		if code, _, problems := runCommand(t, env, "drain"); code != 0 {
			t.Fatalf("drain: status %d: %s", code, problems)
		}
	}
	stream, err := b.js.Stream(t.Context(), testkit.StreamOf(topic))
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := stream.GetMsg(t.Context(), 70)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 70); err != nil {
		t.Fatal(err)
	}
	id := deleted.Header.Get("message-id")
	if rows, sum := verified(t, env, 1); len(rows) != 1 || rows[0].ID != id || rows[0].Problem != "missing" ||
		sum.Rows != 100 {
		t.Errorf("of one that was deleted: %+v, %+v", rows, sum)
	}
	outbox.Exec(t, "delete from outbox_messages where id = $1", id)
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows, sum := verified(t, env, 0); len(rows) != 99 || sum.Gone != 99 {
		t.Errorf("of an empty stream: %d rows, %+v", len(rows), sum)
	}
	if err := b.js.DeleteStream(t.Context(), testkit.StreamOf(topic)); err != nil {
		t.Fatal(err)
	}
	if _, sum := verified(t, env, 1); sum.Missing != 0 || sum.Unknown != 99 { // the account may map the subject
		t.Errorf("without a stream: %+v", sum)
	}
}
