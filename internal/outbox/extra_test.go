package outbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A template's values from headers and payload are texts, with either type of JSON. A value that is missing or null is
// NULL.
func TestExtras(t *testing.T) {
	t.Parallel()
	paths := []string{"a", "a.b", "list.1", "list.1.x", "ключ", "it's", "n"}
	for _, typ := range []string{"jsonb", "json"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, fmt.Sprintf(`create table outbox_messages (id integer primary key, topic text not null default 't',
				payload %[1]s, headers
			%[1]s,
				tenant text, relayed_at timestamptz); create index on outbox_messages (id) where relayed_at is null`, typ))
			const null = "<null>"
			type document struct {
				payload, headers, tenant any
				want                     []string // h, sent column, number in headers, and the paths
			}
			rows := []document{
				{
					`{"a": "x", "n": 1}`, `{"h": "v", "tenant": "own", "n": 2.50}`, "column",
					[]string{"v", "column", "2.50", "x", null, null, null, null, null, "1"},
				},
				{
					`{"a": {"b": "é \"q\""}, "n": true}`, `{"H": "v"}`, "column",
					[]string{null, "column", null, `{"b": "é \"q\""}`, `é "q"`, null, null, null, null, "true"},
				},
				{
					`{"list": [1, {"x": 12345678901234567890.10}], "n": null}`, `{"h": null, "n": {"k": []}}`, nil,
					[]string{
						null, null, `{"k": []}`, null, null, `{"x": 12345678901234567890.10}`, "12345678901234567890.10", null,
						null, null,
					},
				},
				{
					`{"ключ": "да", "it's": "", "a": [], "n": false}`, `[]`, "",
					[]string{null, "", null, "[]", null, null, null, "да", "", "false"},
				},
				{`"a"`, nil, nil, slices.Repeat([]string{null}, 10)},
				{nil, nil, "column", append([]string{null, "column"}, slices.Repeat([]string{null}, 8)...)},
			}
			for i, row := range rows {
				s.Exec(t, "insert into outbox_messages (id, payload, headers, tenant) values ($1, $2, $3, $4)", i, row.payload,
					row.headers, row.tenant)
			}
			config := Config{
				Extra: []rowkey.Source{
					{Kind: rowkey.Header, Name: "h"}, {Kind: rowkey.Header, Name: "tenant"}, {Kind: rowkey.Header, Name: "n"},
				},
				Columns: map[string]string{"header.tenant": "tenant"},
			}
			for _, path := range paths {
				config.Extra = append(config.Extra, rowkey.Source{Kind: rowkey.Payload, Name: path})
			}
			table := open(t, s, config)
			page := tail(t, table, Query{})
			if len(page.Rows) != len(rows) {
				t.Fatalf("%d rows, want %d", len(page.Rows), len(rows))
			}
			texts := func(row *Row) (texts []string) {
				for i, text := range row.Extra {
					if row.Nulls&(1<<i) != 0 {
						text = null
					}
					texts = append(texts, text)
				}
				return texts
			}
			for i := range page.Rows {
				if got := texts(&page.Rows[i]); !slices.Equal(got, rows[i].want) {
					t.Errorf("row %d has %q, want %q", i, got, rows[i].want)
				}
			}
		})
	}
}

// A header that is only a column, sent as this header, needs no headers.
func TestExtraOfAColumnSentAsHeader(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id integer primary key, topic text, payload text, tenant integer, relayed_at
		timestamptz);
		insert into outbox_messages values (1, 't', '', 7)`)
	config := Config{
		Extra: []rowkey.Source{{Kind: rowkey.Header, Name: "x-tenant"}}, Columns: map[string]string{"header.x-tenant": "tenant"},
	}
	page := tail(t, open(t, s, config), Query{})
	if len(page.Rows) != 1 || page.Rows[0].Extra[0] != "7" || page.Rows[0].Nulls != 0 {
		t.Errorf("%+v", page.Rows)
	}
}

// A column that is sent as the header Nats-TTL is a number of seconds or a text.
func TestTTLFromAColumn(t *testing.T) {
	t.Parallel()
	for typ, values := range map[string]map[string]string{
		"integer": {"90": "90"},
		"text":    {"'36h'": "36h", "'never'": "never", "null": ""},
	} {
		for value, want := range values {
			s := pgtest.New(t)
			s.Exec(t, fmt.Sprintf(
				"create table outbox_messages (id integer primary key, topic text, payload text, life %s, relayed_at "+
					"timestamptz); insert into outbox_messages values (1, 't', '', %s)", typ, value))
			page := tail(t, open(t, s, Config{Columns: map[string]string{"header.Nats-TTL": "life"}}), Query{})
			if got, _ := page.Rows[0].Message.Header("nats-ttl"); got != want {
				t.Errorf("%s %s gives %q, want %q", typ, value, got, want)
			}
		}
	}
}

// A time comes in milliseconds since 1970, whatever its type; a time outside the calendar is NULL. Samples do not
// distinguish times.
func TestExtraTime(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"timestamptz", "timestamp"} {
		s := pgtest.New(t)
		s.Exec(t, "create table outbox_messages (id integer primary key, topic text not null default 't', "+
			"payload text, at "+typ+", relayed_at timestamptz); create index on outbox_messages (id) where relayed_at is null")
		values := []string{
			"2026-03-01 12:00:00.123456", "1969-12-31 23:59:59", "infinity", "-infinity", "294276-12-31",
			"4713-01-01 BC", "",
		}
		want := []string{"1772366400123", "-1000", "", ""}
		for i, value := range values {
			s.Exec(t, "insert into outbox_messages (id, at) values ($1, nullif($2, '')::"+typ+")", i, value)
		}
		table := open(t, s, Config{Extra: []rowkey.Source{{Kind: rowkey.Time, Name: "at"}}})
		page := tail(t, table, Query{})
		for i, row := range page.Rows {
			got := row.Extra[0]
			if null := row.Nulls == 1; null != (values[i] == "" || i == 2 || i == 3) || i < 4 && got != want[i] {
				t.Errorf("%s %s is %q", typ, values[i], got)
			}
		}
	}
}

// TestTemplateOfOneDestination: a template that needs what the table lacks keeps its destination from the table, and no
// other. The failures of rows forget their dead letters nevertheless.
func TestTemplateOfOneDestination(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages)+`alter table outbox_messages
		add dead_at timestamptz, add audit_at timestamptz, add audit_failed timestamptz`)
	orders := View{Name: "orders", Extra: []int{0}}
	audit := View{
		Name: "audit", Columns: map[string]string{"relayed_at": "audit_at", "failed_at": "audit_failed"},
		Extra: []int{1},
	}
	coded := View{Name: "coded", Encoded: true, Extra: []int{}}
	dead := View{Name: "dead", Columns: map[string]string{"relayed_at": "dead_at"}, FailedOf: &orders, Extra: []int{0, 2}}
	config := Config{
		Extra: []rowkey.Source{{Name: "key"}, {Name: "tenant"}, {Kind: rowkey.Time, Name: "sent"}},
		Views: []View{orders, audit, dead, coded},
	}
	table := open(t, s, config)
	mine, err := table.For(orders)
	if err != nil || len(mine.Unsent()) != 1 {
		t.Errorf("orders: %v, and a failure does not forget the dead letter", err)
	}
	s.Exec(t, "insert into outbox_messages (topic, key, payload) values ('order', 'k', '{}')")
	page := tail(t, mine, Query{})
	if row := page.Rows[0]; row.Extra[0] != "k" || row.Nulls != 0b110 {
		t.Errorf("the texts are %q, NULL %b", row.Extra, row.Nulls)
	}
	for name, v := range map[string]View{
		"no column tenant": audit, "no column sent": dead,
		"type text or varchar": coded,
	} {
		if _, err := table.For(v); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if _, err := Open(t.Context(), s.Pool,
		Config{Table: messages, Extra: config.Extra, Views: []View{audit}}); err == nil {
		t.Error("the table is open although no destination can use it")
	}
	// Rows that failed before at a destination with such a template are dead letters elsewhere.
	dead.FailedOf, dead.Extra = &audit, []int{0}
	config.Views[2] = dead
	if _, err := open(t, s, config).For(dead); err != nil {
		t.Errorf("dead letters of a destination with such a template: %v", err)
	}
}
