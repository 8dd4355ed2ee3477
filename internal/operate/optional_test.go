package operate

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestPruneWithoutBestEffort deletes rows that every required destination has done, whatever the best-effort ones still
// wait for. A row that only these take is kept until they have done it.
func TestPruneWithoutBestEffort(t *testing.T) {
	t.Parallel()
	s, _ := several(t)
	s.Exec(t, "create index on outbox_messages (relayed_at) where relayed_at is not null")
	s.Exec(t, "create index on outbox_messages (dead_at) where dead_at is not null")
	orders := outbox.View{Name: "orders", Filter: outbox.Filter{Topics: []string{"a*"}}}
	o := opened(t, s, outbox.Config{Views: []outbox.View{
		orders,
		{Name: "notice", Columns: map[string]string{"relayed_at": "audit_at"}, RelayedOf: &orders, Optional: true},
		{Name: "copies", Columns: map[string]string{"relayed_at": "dead_at"}, Optional: true},
	}})
	const old, young = "now() - interval '1 day'", "now()"
	for _, row := range [][]string{
		{"a done, not noticed", old, "null", "null"},
		{"a done, noticed", old, old, old},
		{"a young", young, old, old},
		{"a pending", "null", "null", old},
		{"b copied", "null", "null", old},
		{"b not copied", "null", "null", "null"},
		{"b copied now", "null", "null", young},
	} {
		s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at, audit_at, dead_at) values ($1, '{}', "+row[1]+
			", "+
			row[2]+", "+row[3]+")",
			row[0])
	}
	s.Exec(t, "create index on outbox_messages (inserted_at)")
	s.Exec(t, "update outbox_messages set inserted_at = now() - interval '1 day'")
	n := prune(t, o, time.Hour, false, Selection{})
	left := pgtest.Value[string](t, s, "select string_agg(topic, '; ' order by topic) from outbox_messages")
	if want := "a pending; a young; b copied now; b not copied"; n != 3 || left != want {
		t.Errorf("prune deletes %d rows and leaves %s", n, left)
	}
	s.Exec(t, "insert into outbox_messages (topic, payload, inserted_at, audit_at) values ('b', '{}', "+old+", "+old+")")
	if n := prune(t, opened(t, s, outbox.Config{Views: []outbox.View{
		orders,
		{Name: "audit", Columns: map[string]string{"relayed_at": "audit_at"}, Optional: true},
		{Name: "copies", Columns: map[string]string{"relayed_at": "dead_at"}, Optional: true},
	}}), time.Hour, false, Selection{}); n != 0 {
		t.Errorf("prune deletes %d rows that one best-effort destination has done and another has not", n)
	}
	r, err := o.ReportOf(t.Context(), Selection{}, patience)
	if err != nil || r.Destinations[0].BestEffort || !r.Destinations[1].BestEffort {
		t.Errorf("%+v (%v)", r.Destinations, err)
	}
}
