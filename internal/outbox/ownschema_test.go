package outbox

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// The printed DDL for a destination's own columns runs on tables of any shape, also a second time, without rewriting
// the table. Existing rows are done there, new rows are not, and nothing is missing afterwards.
func TestOwnSchema(t *testing.T) {
	t.Parallel()
	odd := sql.Table{Name: `Odd "name" ö`}
	for name, test := range map[string]struct {
		schema string
		config Config
	}{
		"recommended": {schema: sql.Schema(messages)},
		"A":           {schema: pgtest.ShapeA}, "B": {schema: pgtest.ShapeB}, "C": {schema: pgtest.ShapeC},
		"priority": {schema: sql.Schema(messages) +
			"alter table outbox_messages add priority integer; create index on outbox_messages " +
			"((~coalesce(priority, 0)::bigint), seq) where relayed_at is null and failed_at is null"},
		"mapped": {
			schema: `create table "Odd ""name"" ö" (nr bigint primary key, "Type" text, body text, sent timestamp, "failed at"
				timestamp,
				"Place" bigint generated always as identity)`,
			config: Config{Table: odd, Columns: map[string]string{
				"id": "nr", "topic": "Type", "payload": "body", "relayed_at": "sent",
				"failed_at": "failed at", "order": "Place", "txid": "Tx Id",
			}},
		},
		"by id": {schema: "create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at " +
			"timestamptz, " +
			"failed_at timestamptz)"},
		"partitioned": {schema: originTables["partitioned"]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, test.schema)
			config := test.config
			if config.Table.Name == "" {
				config.Table = messages
			}
			table := config.Table.Quoted()
			column := func(ours string) string {
				if theirs := config.Columns[ours]; theirs != "" {
					return sql.Quote(theirs)
				}
				return ours
			}
			insert := func(topics ...string) {
				t.Helper()
				for i, topic := range topics {
					id := []any{}
					columns, values := column("topic")+", "+column("payload"), "$1, '{}'"
					if name == "mapped" || name == "by id" {
						columns, values = columns+", "+column("id"), values+", $2"
						id = append(id, 100*len(topics)+i)
					}
					if strings.Contains(test.schema, "updated_at") && len(name) == 1 {
						columns, values = columns+", inserted_at, updated_at", values+", now(), now()"
					}
					s.Exec(t, "insert into "+table+" ("+columns+") values ("+values+")", append([]any{topic}, id...)...)
				}
			}
			insert("order.old", "other.old")
			s.Exec(t, "update "+table+" set "+column("failed_at")+" = now() where "+column("topic")+" = 'order.old'")
			s.Exec(t, "update "+table+" set "+column("relayed_at")+" = now() where "+column("topic")+" = 'other.old'")
			insert("order.wait", "other.wait", "third.wait")
			orders := View{Name: "orders"}
			views := []View{
				orders,
				{Name: "to-audit", Columns: auditColumns, Filter: Filter{Topics: []string{"order.*", "it's 100%{x}*"}}},
				{Name: "dead", Columns: deadColumns, FailedOf: &orders},
				{Name: "notice", Columns: noticeColumns, RelayedOf: &orders},
			}
			config.Views = views
			files := "select sum(pg_relation_filenode(c.OID)::bigint)::bigint from pg_class c where relkind = 'r' and " +
				"relnamespace = " +
				"$1::regnamespace"
			before := pgtest.Value[int64](t, s, files, s.Name)
			for _, v := range views[1:] {
				s.Exec(t, config.OwnSchema(v))
			}
			if pgtest.Value[int64](t, s, files, s.Name) != before {
				t.Error("the table was rewritten")
			}
			check := func(when string, want map[string]string) {
				t.Helper()
				opened, found, err := Examine(t.Context(), s.Pool, config)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range found {
					if f.Severity != finding.OK && f.Check == checkIndex && strings.Contains(f.Subject, "destination") {
						t.Errorf("%s: %s: %s: %s", when, f.Subject, f.Found, f.Remedy)
					}
				}
				got := map[string]string{}
				for _, v := range views {
					var topics []string
					for _, r := range tail(t, viewOf(t, opened, v), Query{}).Rows {
						topics = append(topics, r.Message.Topic)
					}
					slices.Sort(topics)
					got[v.Name] = strings.Join(topics, " ")
				}
				if !maps.Equal(got, want) {
					t.Errorf("%s: %v, want %v", when, got, want)
				}
			}
			for _, lack := range open(t, s, config).Lacks() {
				// All that a notice has is a time, as in the documents' example.
				if strings.Contains(lack.Subject, ", destination ") {
					t.Errorf("%s lacks something: %s", lack.Subject, lack.Found)
				}
			}
			check("at first", map[string]string{
				"orders": "order.wait other.wait third.wait", "to-audit": "", "dead": "",
				"notice": "",
			})
			insert("order.new", "other.new", "order.2", "x.3")
			s.Exec(t, "update "+table+" set "+column("failed_at")+" = now() where "+column("topic")+" = 'third.wait'")
			s.Exec(t, "update "+table+" set "+column("relayed_at")+" = now() where "+column("topic")+" = 'order.wait'")
			then := map[string]string{
				"orders": "order.2 order.new other.new other.wait x.3", "to-audit": "order.2 order.new", "dead": "third.wait",
				"notice": "order.wait",
			}
			check("then", then)
			for _, v := range views[1:] {
				s.Exec(t, config.OwnSchema(v))
			}
			check("after the statements ran again", then)
			config.Views = views[:2]
			strangers := open(t, s, config).Strangers()
			if len(strangers) != 2 || strangers[0].Name != "dead" || len(strangers[0].Columns) != len(deadColumns) ||
				!reflect.DeepEqual(strangers[1], Stranger{"notice", "notice_relayed_at", []string{"notice_relayed_at"}}) {
				t.Errorf("destinations that are not configured: %+v", strangers)
			}
		})
	}
}
