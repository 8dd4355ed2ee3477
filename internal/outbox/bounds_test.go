package outbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher"
)

const boundsTable = `create table outbox_messages (id bigint generated always as identity primary key, topic text not
	null default 't', key
text, payload %s, headers %s,
	relayed_at timestamptz, failed_at timestamptz)`

// Rows of usual sizes come with their page in one statement, compressed or not. For larger rows the page holds the
// approximate size, and they are read afterwards. In both cases each value arrives unchanged.
func TestRowsThatComeWithTheirPage(t *testing.T) {
	t.Parallel()
	object := func(size int) string {
		return fmt.Sprintf(`{"data": "%s", "text": "%s"}`, strings.Repeat("x", size/2),
			strings.Repeat("0123456789abcdef", size/32))
	}
	small, usual, large := object(100), object(6<<10), object(1<<20)
	for kind, expression := range map[string]string{
		"jsonb": "$1::text::jsonb", "json": "$1::text::json", "text": "$1::text",
		"varchar": "$1::varchar", "bytea": "convert_to($1, 'UTF8')",
	} {
		for storage, compressed := range map[string]bool{"external": false, "extended": true} {
			t.Run(kind+", "+storage, func(t *testing.T) {
				t.Parallel()
				s := pgtest.New(t)
				s.Exec(t, fmt.Sprintf(boundsTable, kind, "jsonb"))
				s.Exec(t, "alter table outbox_messages alter column payload set storage "+storage+
					", alter column headers set storage "+storage)
				payloads, headers := []string{small, usual, large, "", small},
					[]string{`{"h": "v"}`, `{"h": "v"}`, "", usual, large}
				for i := range payloads {
					s.Exec(t, `insert into outbox_messages (payload, headers) values (case when $1 <> '' then `+expression+
						` end, nullif($2, '')::jsonb)`,
						payloads[i], headers[i])
				}
				if got := pgtest.Value[int](t, s,
					"select count(*) from outbox_messages where pg_column_compression(payload) is not null"); compressed != (got > 0) {
					t.Fatalf("%d payloads are compressed", got)
				}
				table := open(t, s, Config{Table: messages})
				q := Query{Most: Most{Rows: 100, Bytes: 64 << 20, First: 64 << 20}}
				a, err := table.askOnce(t.Context(), table.tail.of(table, &q), q.Most, table.each(mostInPage))
				if err != nil {
					t.Fatal(err)
				}
				for i, row := range a.Rows {
					if apart := i == 2 || i == 4; (row.size > 0) != apart || apart && row.size <= mostInPage {
						t.Errorf("row %d: %d bytes are still to be read", i, row.size)
					}
				}
				page := tail(t, table, q)
				if len(page.Rows) != len(payloads) {
					t.Fatalf("%d rows", len(page.Rows))
				}
				for i, row := range page.Rows {
					text, has := row.Message.Header("text")
					switch {
					case row.Invalid != nil:
						t.Errorf("row %d: %v", i, row.Invalid)
					case string(row.Message.Payload) != payloads[i], (row.Message.Payload == nil) != (payloads[i] == ""):
						t.Errorf("row %d: %d bytes of payload, not %d", i, len(row.Message.Payload), len(payloads[i]))
					case has != (i >= 3), !strings.Contains(headers[i], text):
						t.Errorf("row %d: headers %.100v", i, row.Message.Headers)
					}
				}
			})
		}
	}
}

// Texts up to their bound come whole, whether they are stored or made from another column. Longer texts are recognised.
func TestTextsThatComeWithTheirPage(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{
		"column":     {},
		"expression": {Key: rowkey.Source{Kind: rowkey.Header, Name: "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, fmt.Sprintf(boundsTable, "text", "jsonb"))
			lengths := []int{1, shortText - 1, shortText, shortText + 1, 5000, 100_000}
			for _, n := range lengths {
				s.Exec(t, `insert into outbox_messages (topic, key, headers, payload) values (repeat('ä', $1::int), repeat('k',
					$1::int),
					jsonb_build_object('k', repeat('k', $1::int)), '')`, n)
			}
			config.Table, config.MaxRow = messages, 64<<10
			table := open(t, s, config)
			for i, row := range tail(t, table, Query{}).Rows {
				key := string(row.Message.Key)
				whole := row.Message.Topic == strings.Repeat("ä", lengths[i]) && key == strings.Repeat("k", lengths[i])
				if tooLarge := publisher.ClassOf(row.Invalid) == publisher.Permanent; tooLarge == whole ||
					tooLarge != (lengths[i] == 100_000) {
					t.Errorf("%d characters: %v, %d bytes of topic, %d of key", lengths[i], row.Invalid, len(row.Message.Topic),
						len(key))
				}
			}
		})
	}
}

// A text that is too long to be read is named as the reason, and not the size of the row.
func TestTextThatIsTooLong(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, fmt.Sprintf(boundsTable, "jsonb", "jsonb"))
	s.Exec(t, `insert into outbox_messages (topic, payload) values ('t', jsonb_build_object('a', repeat('x', 2000000)))`)
	table := open(t, s, Config{
		MaxRow: 64 << 20, Extra: []rowkey.Source{{Kind: rowkey.Payload, Name: "a"}},
	})
	rows := tail(t, table, Query{}).Rows
	if len(rows) != 1 || publisher.ClassOf(rows[0].Invalid) != publisher.Permanent ||
		!strings.Contains(rows[0].Invalid.Error(), "a template names") {
		t.Errorf("%d rows, %v", len(rows), rows[0].Invalid)
	}
}

// A row that the server cannot write as text, since that would take more than a gigabyte, does not affect other rows,
// though its stored form takes two kilobytes.
func TestPageWithARowThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, fmt.Sprintf(boundsTable, "jsonb", "jsonb"))
	s.Exec(t, `insert into outbox_messages (key, payload) select 'key', case when i = 2 then ('[' || repeat('1e131000,',
		9000) || '1]')::jsonb
		else '{}' end from generate_series(1, 3) i`)
	if size := pgtest.Value[int](t, s,
		"select pg_column_size(payload) from outbox_messages where id = 2"); size > leastInPage/usualCompression {
		t.Fatalf("it takes %d bytes, too many to come with its page", size)
	}
	page := tail(t, open(t, s, Config{Table: messages}), Query{Most: Most{Rows: 10}})
	if len(page.Rows) != 3 {
		t.Fatalf("%d rows", len(page.Rows))
	}
	for i, row := range page.Rows {
		if want := i == 1; (publisher.ClassOf(row.Invalid) == publisher.Permanent) != want ||
			!want && string(row.Message.Payload) != "{}" {
			t.Errorf("row %d: %v", i, row.Invalid)
		}
		if string(row.Message.Key) != "key" || row.Message.Topic != "t" {
			t.Errorf("row %d has the key %q and the topic %q", i, row.Message.Key, row.Message.Topic)
		}
	}
}
