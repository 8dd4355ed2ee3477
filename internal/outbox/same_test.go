package outbox

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Destinations whose templates read other columns know that they have read the same version of a row, so that one
// statement marks it for both. A row that was changed between the two reads is another one.
func TestRowReadByTwoDestinations(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages)+`alter table outbox_messages add audit_at timestamptz`)
	orders := View{Name: "orders", Extra: []int{0}}
	audit := View{Name: "audit", Columns: map[string]string{"relayed_at": "audit_at"}, Extra: []int{1}}
	table := open(t, s, Config{
		Extra: []rowkey.Source{{Name: "key"}, {Name: "topic"}}, Views: []View{orders, audit},
	})
	s.Exec(t, "insert into outbox_messages (topic, key, payload) values ('order', 'k', '{}')")
	read := func(v View) *Row {
		t.Helper()
		view, err := table.For(v)
		if err != nil {
			t.Fatal(err)
		}
		return &tail(t, view, Query{}).Rows[0]
	}
	first, second := read(orders), read(audit)
	if !first.Same(second) {
		t.Error("two reads of one version differ")
	}
	s.Exec(t, "update outbox_messages set payload = '{\"a\": 1}'")
	if first.Same(read(audit)) || first.Same(read(orders)) {
		t.Error("a changed row is the same")
	}
}
