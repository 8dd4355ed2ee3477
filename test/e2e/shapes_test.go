package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// traceparent is a header as applications write it.
const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// These rows test the wire format, in a form that every table accepts: headers and payload, and the text that arrives
// for them.
var wireRows = []struct {
	headers, payload string
	body             string
	wire             map[string]string
}{
	{
		`{"type": "order.placed", "traceparent": "` + traceparent + `"}`, `{"b": 1.50, "a": 12345678901234567890}`,
		`{"a": 12345678901234567890, "b": 1.50}`,
		map[string]string{"type": "order.placed", "traceparent": traceparent},
	},
	{
		`{"version": 2, "ratio": 1.50, "nested": {"a": [1, 2]}, "flag": true}`, `[1, "two", null]`,
		`[1, "two", null]`,
		map[string]string{"version": "2", "ratio": "1.50", "nested": `{"a": [1, 2]}`, "flag": "true"},
	},
	{
		`{"content-type": "application/vnd.order+json"}`, `"Grüße 👋"`,
		`"Grüße 👋"`,
		map[string]string{"content-type": "application/vnd.order+json"},
	},
	{`{}`, `null`, `null`, map[string]string{}},
	{``, `{}`, `{}`, map[string]string{}}, // the headers are NULL
}

// TestShapes relays rows of each table that applications already have, unchanged, and of the recommended one, to each
// broker, and compares what arrives byte for byte.
func TestShapes(t *testing.T) {
	t.Parallel()
	shapes := map[string]string{"A": pgtest.ShapeA, "B": pgtest.ShapeB, "C": pgtest.ShapeC, "recommended": ""}
	for _, b := range brokers(t) {
		for _, shape := range slices.Sorted(maps.Keys(shapes)) {
			t.Run(b.name()+"/"+shape, func(t *testing.T) {
				t.Parallel()
				ddl := shapes[shape]
				if ddl == "" {
					ddl = recommended(t)
				}
				testShape(t, b, ddl, shape)
			})
		}
	}
}

func testShape(t *testing.T, b broker, ddl, shape string) {
	topic, outbox := b.topic(t), newShape(t, ddl)
	startRelay(t, outbox.env(b.url(), "TZ=America/New_York", "PGTZ=America/New_York")).awaitReady()
	earliest := time.Now().Add(-time.Second).Truncate(time.Second)
	ids := make([]string, len(wireRows))
	for i, row := range wireRows {
		columns, values := "topic, payload, headers", "$1, $2::jsonb, nullif($3, '')::jsonb"
		if shape == "B" || shape == "recommended" { // headers are never NULL there
			values = strings.Replace(values, "nullif($3, '')", "coalesce(nullif($3, ''), '{}')", 1)
		}
		if shape == "recommended" {
			columns, values = columns+", key", values+", 'käse'"
		} else {
			columns, values = columns+", inserted_at, updated_at", values+", now() at time zone 'UTC', now() at time zone 'UTC'"
		}
		ids[i] = pgtest.Value[string](t, outbox.Schema,
			"insert into outbox_messages ("+columns+") values ("+values+") returning id::text",
			topic, row.payload, row.headers)
	}
	outbox.awaitRelayed(len(wireRows))

	arrived := map[string]delivery{}
	for _, d := range b.received(t, topic) {
		arrived[d.id] = d
	}
	for i, row := range wireRows {
		d, found := arrived[ids[i]]
		if !found {
			t.Errorf("row %s has not arrived", row.payload)
			continue
		}
		if d.topic != topic || d.body != row.body {
			t.Errorf("row %s arrived at %s as %s", row.payload, d.topic, d.body)
		}
		wanted := maps.Clone(row.wire)
		if wanted["content-type"] == "" {
			wanted["content-type"] = "application/json"
		}
		if b.name() == "nats" {
			wanted["Nats-Msg-Id"] = ids[i]
			if shape == "C" { // an id that is not unique everywhere is extended by the database, the table and the insert time
				wanted["Nats-Msg-Id"] = outbox.identity() + "/" + outbox.Name + ".outbox_messages/" +
					pgtest.Value[string](t, outbox.Schema,
						"select id || '@' || (extract(epoch from inserted_at) * 1000000)::bigint from outbox_messages where id = "+
							"$1::bigint", ids[i])
			}
		}
		if !maps.Equal(d.headers, wanted) {
			t.Errorf("row %s has headers %q, want %q", row.payload, d.headers, wanted)
		}
		if key, keyless := "käse", shape != "recommended"; d.keyless != keyless || !keyless && d.key != key {
			t.Errorf("row %s has key %q (none: %v)", row.payload, d.key, d.keyless)
		}
		if b.name() != "nats" && (d.timestamp.Before(earliest) || d.timestamp.After(time.Now().Add(time.Second))) {
			t.Errorf("row %s is stamped %v, but was inserted after %v", row.payload, d.timestamp, earliest)
		}
	}
	if n := len(arrived); n != len(wireRows) {
		t.Errorf("%d messages arrived", n)
	}
	// A mark is the time in UTC and nothing else.
	now := "now()"
	if shape != "recommended" {
		now = "now() at time zone 'UTC'"
	}
	if wrong := outbox.count("abs(extract(epoch from " + now +
		" - relayed_at)) > 60 or last_error is not null or updated_at > inserted_at"); wrong > 0 {
		t.Errorf("%d marks are wrong", wrong)
	}
}

// TestKeySources keeps the order of keys whose source is not a column.
func TestKeySources(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	for source, key := range map[string]string{"header:order": "h", "payload:order.id": "p", "topic": "", "none": ""} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			topic, outbox := b.topic(t), newShape(t, pgtest.ShapeB)
			outbox.Exec(t, `insert into outbox_messages (topic, payload, headers, inserted_at, updated_at)
				select $1, jsonb_build_object('n', i, 'order', jsonb_build_object('id', 'p' || i % 7)), jsonb_build_object('order',
				'h' || i % 7),
				  t, t from generate_series(1, 3000) i, lateral (select (now() at time zone 'UTC') - interval '1 hour' + i *
				interval '1 ms' as t) x`,
				topic)
			startRelay(t, outbox.env(b.url(), "OUTBOX_KEY="+source))
			outbox.awaitDrained()
			got := b.received(t, topic)
			if source == "none" {
				for i := range got {
					if !got[i].keyless {
						t.Fatalf("message %s has the key %q", got[i].id, got[i].key)
					}
					got[i].key = got[i].id // such rows have no order
				}
			}
			check(t, outbox, got)
			for _, d := range got {
				if source == "topic" && d.key != topic || key != "" && !strings.HasPrefix(d.key, key) {
					t.Fatalf("message %s has the key %q", d.id, d.key)
				}
			}
		})
	}
}
