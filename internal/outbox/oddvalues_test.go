package outbox

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// The type json holds escapes that no text can hold. They do not stop the reads. If the key contains none, it equals
// the key of its other rows.
func TestKeyInJSONWithImpossibleEscapes(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id integer primary key, topic text not null default 't', payload json,
		headers json,
		relayed_at timestamptz)`)
	documents := map[int]struct{ json, key string }{
		1:  {`{"a": {"b": "k"}}`, "k"},
		2:  {`{"a": {"b": "k"}, "other": "\u0000"}`, "k"},
		3:  {`{"a": {"b": "k"}, "\u0000": 1}`, "k"},
		4:  {`{"a": {"b": "\u0000k"}}`, "?k"},
		5:  {`{"a": {"b": "k"}, "other": "\ud83d"}`, "k"},
		6:  {`{"a": {"b": "k"}, "other": "\uDE00\ud83d"}`, "k"},
		7:  {`{"a": {"b": "\ud83d\ude00"}, "other": "\u00e9"}`, "😀"},
		8:  {`{"a": {"b": "\\u0000"}}`, `\u0000`},
		9:  {`{"a": {"b": "\\u0000"}, "other": "\\\u0000\u0000"}`, `\u0000`},
		10: {`{"a": {"b": "k"}, "other": "\\ud83d\ude00"}`, "k"},
		11: {`{"a": {"b": "k"}, "other": "\ud83d\ud83d\ude00"}`, "k"},
		12: {`{"a": {"b": "\\"}, "other": "\\\\\ud800"}`, `\`},
	}
	for id, d := range documents {
		s.Exec(t, "insert into outbox_messages (id, payload, headers) values ($1, $2, $3)", id, d.json,
			`{"h": "k", "z": "\u0000"}`)
	}
	for _, key := range []rowkey.Source{{Kind: rowkey.Payload, Name: "a.b"}, {Kind: rowkey.Header, Name: "h"}} {
		page := tail(t, open(t, s, Config{Key: key, Shards: 4}), Query{Shards: []int{0, 1, 2, 3}})
		if len(page.Rows) != len(documents) {
			t.Fatalf("%d rows, want %d", len(page.Rows), len(documents))
		}
		for i, row := range page.Rows {
			want := documents[i+1]
			if key.Kind == rowkey.Header {
				want.key = "k"
			}
			if got := string(row.Message.Key); got != want.key || string(row.Message.Payload) != want.json {
				t.Errorf("key %q of %s, want %q", got, row.Message.Payload, want.key)
			}
		}
	}
}

// Times that are infinite, or so far away that a difference overflows, stop neither the reads nor the gauges.
func TestInfiniteTimes(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"timestamptz", "timestamp"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, `create table outbox_messages (id integer primary key, topic text default 't', payload text, relayed_at
				timestamptz,
				attempt int, failed_at timestamptz, last_error text, updated_at
				`+typ+`, inserted_at `+typ+` not null, available_at `+typ+`);
				create index on outbox_messages (inserted_at) where relayed_at is null and failed_at is null`)
			for i, at := range []string{"-infinity", "4713-01-01 BC", "2020-01-01", "294276-12-31", "infinity"} {
				s.Exec(t, "insert into outbox_messages values ($1, 't', '', null, 2, null, 'no', $2::text::"+typ+", $2::text::"+typ+
					", case when $1 < 4 then $2::text::"+typ+" end)", i+1, at)
			}
			table := open(t, s, Config{})
			page := tail(t, table, Query{})
			if len(page.Rows) != 5 {
				t.Fatalf("%d rows, want 5", len(page.Rows))
			}
			for i, row := range page.Rows {
				if due := row.Waited > 1000*time.Hour || !row.Retried; due != (i != 3) {
					t.Errorf("row %s waited %v, retried %v", row.Message.ID, row.Waited, row.Retried)
				}
			}
			for range 5 {
				if _, err := table.Count(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.Exec(t, "delete from outbox_messages where id = (select min(id) from outbox_messages)")
			}
		})
	}
}
