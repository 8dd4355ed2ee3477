package e2e

import (
	"encoding/base64"
	bigendian "encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// framed is a message as a schema registry's serializers write it: a zero byte, the schema's number in four bytes, then
// the encoded value, which here contains every byte, including those that text and JSON cannot hold.
func framed(schema uint32) []byte {
	b := bigendian.BigEndian.AppendUint32([]byte{0}, schema)
	for i := range 256 {
		b = append(b, byte(i))
	}
	return append(b, 0xc0, 0xaf, '\r', '\n', 0)
}

// Binary payloads arrive byte for byte, from a bytea column or from text that encodes them. A text that is not a valid
// encoding fails its row.
func TestBytes(t *testing.T) {
	t.Parallel()
	const schema = 0x01020304
	want := framed(schema)
	for encoding, column := range map[string]struct{ kind, text, bad string }{
		"none":   {"bytea", `\x` + hex.EncodeToString(want), ""},
		"base64": {"text", base64.StdEncoding.EncodeToString(want), "AAE"},
		"hex":    {"text", hex.EncodeToString(want), "0g"},
	} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b broker) {
				topic := b.topic(t)
				outbox := newShape(t,
					`create table outbox_messages (id integer primary key, topic text not null, payload `+column.kind+`, headers jsonb,
					attempt integer default 1, last_error text, updated_at timestamptz, relayed_at timestamptz, failed_at timestamptz)`)
				outbox.Exec(t, `insert into outbox_messages (id, topic, payload, headers) values (1, $1,
					$2::text::`+column.kind+`, null),
					(2, $1, $2::text::`+column.kind+`, '{"content-type": "application/vnd.order+avro"}')`, topic, column.text)
				if column.bad != "" {
					outbox.Exec(t, "insert into outbox_messages (id, topic, payload) values (3, $1, $2)", topic, column.bad)
				}
				if code, _, problems := runCommand(t, outbox.env(b.url(), "OUTBOX_PAYLOAD_ENCODING="+encoding),
					"drain"); code != 0 {
					t.Fatalf("drain: status %d: %s", code, problems)
				}
				got := b.received(t, topic)
				if len(got) != 2 {
					t.Fatalf("%d messages arrived", len(got))
				}
				types := map[string]bool{}
				for _, d := range got {
					if d.body != string(want) || d.body[0] != 0 || bigendian.BigEndian.Uint32([]byte(d.body[1:])) != schema {
						t.Errorf("message %s is %x", d.id, d.body)
					}
					types[d.headers["content-type"]] = true
				}
				if !types["application/octet-stream"] || !types["application/vnd.order+avro"] {
					t.Errorf("the content types are %v", types)
				}
				if column.bad == "" {
					return
				}
				if text := pgtest.Value[string](t, outbox.Schema, "select last_error from outbox_messages where id = 3 and "+
					"failed_at is not null"); !strings.Contains(text, "payload encoding") {
					t.Errorf("the bad row says %q", text)
				}
			})
		})
	}
}

// Records have the time that OUTBOX_KAFKA_TIMESTAMP selects.
func TestKafkaTimestamp(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	started := time.Now()
	inserted, happened := started.Add(-2*time.Hour).Truncate(time.Millisecond),
		started.Add(-50*time.Hour).Truncate(time.Millisecond)
	for setting, right := range map[string]func(id string, at time.Time) bool{
		"insert": func(_ string, at time.Time) bool { return at.Equal(inserted) },
		"now":    func(_ string, at time.Time) bool { return !at.Before(started.Truncate(time.Millisecond)) },
		"column:happened_at": func(id string, at time.Time) bool {
			return at.Equal(map[string]time.Time{"1": happened, "2": inserted}[id])
		},
	} {
		topic := b.topic(t)
		outbox := newShape(t, `create table outbox_messages (id integer primary key, topic text not null, payload jsonb,
			inserted_at timestamptz, happened_at timestamp,
			relayed_at timestamptz)`)
		outbox.Exec(t,
			`insert into outbox_messages (id, topic, payload, inserted_at, happened_at) values (1, $1, '{}', $2, $3), (2, $1,
				'{}', $2, null)`,
			topic, inserted, happened.UTC())
		if code, _, problems := runCommand(t, outbox.env(b.url(), "OUTBOX_KAFKA_TIMESTAMP="+setting), "drain"); code != 0 {
			t.Fatalf("drain: status %d: %s", code, problems)
		}
		got := b.received(t, topic)
		if len(got) != 2 {
			t.Errorf("%s: %d records", setting, len(got))
		}
		for _, d := range got {
			if !right(d.id, d.timestamp) {
				t.Errorf("%s: record %s has the time %v", setting, d.id, d.timestamp)
			}
		}
	}
}
