package operate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// several creates the recommended table with destinations that have columns of their own: orders takes all rows in the
// table's columns, audit takes its topics, and dead takes the rows that have failed at orders.
func several(t testing.TB) (*pgtest.Schema, *Outbox) {
	t.Helper()
	s := recommended(t)
	s.Exec(t, `alter table outbox_messages add audit_at timestamptz, add audit_failed timestamptz, add audit_error text,
		add dead_at
	timestamptz;
		create index on outbox_messages (audit_failed) where audit_failed is not null`)
	orders := outbox.View{Name: "orders"}
	views := []outbox.View{
		orders,
		{
			Name: "audit", Filter: outbox.Filter{Topics: []string{"a*"}},
			Columns: map[string]string{"relayed_at": "audit_at", "failed_at": "audit_failed", "last_error": "audit_error"},
		},
		{Name: "dead", Columns: map[string]string{"relayed_at": "dead_at"}, FailedOf: &orders},
	}
	table, err := outbox.Open(t.Context(), s.Pool,
		outbox.Config{Table: sql.Table{Name: "outbox_messages"}, Shards: 16, Views: views})
	if err != nil {
		t.Fatal(err)
	}
	o := &Outbox{Pool: s.Pool, Connect: connectTo(s), Shards: 16}
	for _, v := range views {
		seen, err := table.For(v)
		if err != nil {
			t.Fatal(err)
		}
		o.Views, o.Topics = append(o.Views, seen), append(o.Topics, "null::text")
	}
	return s, o
}

// TestOwnColumns changes the state of one destination and keeps that of the others. A row is done when all destinations
// are done with it.
func TestOwnColumns(t *testing.T) {
	t.Parallel()
	s, o := several(t)
	const at = "now() - interval '1 day'"
	// The topic describes what became of a row at orders, at audit, which takes topics with a, and at dead.
	s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at, failed_at, audit_at, audit_failed, dead_at) values
		('relayed', '{}', `+at+`, null, null, null, null), ('a relayed, relayed', '{}', `+at+`, null, `+at+`, null, null),
		('a relayed, pending', '{}', `+at+`, null, null, null, null), ('a relayed, failed', '{}', `+at+`, null, null, `+at+`, null),
		('a failed, relayed, dead', '{}', null, `+at+`, `+at+`, null, `+at+`), ('a failed, relayed, not dead', '{}', null, `+at+`, `+at+`, null,
		null),
		('failed, dead', '{}', null, `+at+`, null, null, `+at+`)`)
	left := func() string {
		return pgtest.Value[string](t, s, "select coalesce(string_agg(topic, '; ' order by topic), '') from outbox_messages")
	}
	r, err := o.ReportOf(t.Context(), Selection{}, patience)
	if err != nil {
		t.Fatal(err)
	}
	if r.Untaken != nil || *r.Destinations[0].Failed != 3 || *r.Destinations[1].Failed != 1 {
		t.Errorf("the report: untaken %+v, failed %d and %d", r.Untaken, *r.Destinations[0].Failed, *r.Destinations[1].Failed)
	}
	if n := choose(t, o, Retry(), Selection{}).Rows; n != 4 {
		t.Errorf("%d failed rows of all destinations, not 4", n)
	}
	if result, how := apply(t,
		choose(t, o, Discard(false, "late"), Selection{Destination: "audit"})); result.Changed != 1 ||
		how[0] != "audit a relayed, failed deleted" {
		t.Errorf("discard at audit what orders has done: %+v %v", result, how)
	}
	if n := prune(t, o, time.Hour, false, Selection{}); n != 2 ||
		left() != "a failed, relayed, dead; a failed, relayed, not dead; a relayed, pending; failed, dead" {
		t.Errorf("prune deletes %d rows and leaves %s", n, left())
	}
	if n := prune(t, o, time.Hour, true, Selection{}); n != 2 ||
		left() != "a failed, relayed, not dead; a relayed, pending" {
		t.Errorf("prune, also of failed rows, deletes %d rows and leaves %s", n, left())
	}
	// Destinations without last_error have no rows with an error. The selection is not wrong because of that.
	s.Exec(t, "update outbox_messages set last_error = 'NO' where topic = 'a relayed, pending'")
	for want, count := range map[string]int64{"no": 1, "yes": 0} {
		if n := choose(t, o, Replay(), Selection{Error: want}).Rows; n != count {
			t.Errorf("%d relayed rows have the error %q, not %d", n, want, count)
		}
	}
	r, err = o.ReportOf(t.Context(), Selection{Error: "no"}, patience)
	if err != nil || len(r.Destinations) != 3 || r.Destinations[0].Failed == nil {
		t.Errorf("a report of rows with an error: %+v (%v)", r.Destinations, err)
	}
	// A retried row has no dead letter until it fails again.
	const sent = `select (dead_at is not null)::text from outbox_messages where topic like '%not dead'`
	s.Exec(t, "update outbox_messages set dead_at = now() where topic like '%not dead'")
	if result, _ := apply(t, choose(t, o, Retry(), Selection{Destination: "orders"})); result.Changed != 1 ||
		pgtest.Value[string](t, s, sent) != "false" {
		t.Errorf("retry of a row whose dead letter was sent: %+v, sent %s", result, pgtest.Value[string](t, s, sent))
	}
	s.Exec(t, "update outbox_messages set failed_at = "+at+" where topic like '%not dead'")
	// Its dead letter has not been sent, so it is kept; afterwards nothing waits for it.
	if result, how := apply(t, choose(t, o, Discard(false, "late"), Selection{})); result.Changed != 1 ||
		how[0] != "orders a failed, relayed, not dead kept" {
		t.Errorf("discard what a dead letter is to be made of: %+v %v", result, how)
	}
	if n := prune(t, o, 0, false, Selection{}); n != 1 || left() != "a relayed, pending" {
		t.Errorf("prune deletes %d rows and leaves %s", n, left())
	}
	if result, _ := apply(t, choose(t, o, Replay(), Selection{Destination: "orders"})); result.Changed != 1 ||
		pgtest.Value[int64](t, s, "select count(*) from outbox_messages where relayed_at is null and audit_at is null") != 1 {
		t.Errorf("replay at orders: %+v", result)
	}
	rows, err := o.RowsOf(t.Context(), []string{pgtest.Value[string](t, s, "select id::text from outbox_messages")}, "",
		patience)
	if err != nil || len(rows) != 1 || len(rows[0].Fates) != 3 || rows[0].Fates[0].State != "due" ||
		rows[0].Fates[1].State != "due" ||
		rows[0].Fates[2].State != "not taken" {
		t.Errorf("where the row is: %+v (%v)", rows, err)
	}
}

// TestRemovedDestination: a destination that is no longer configured, and that nobody relays, is named by the report,
// and keeps prune from deleting rows.
func TestRemovedDestination(t *testing.T) {
	t.Parallel()
	s, _ := several(t)
	s.Exec(t, `comment on column outbox_messages.audit_at is 'outbox-relay destination audit: relayed_at';
		comment on column outbox_messages.dead_at is 'outbox-relay destination dead: relayed_at'`)
	views := []outbox.View{{Name: "orders"}, {Name: "dead", Columns: map[string]string{"relayed_at": "dead_at"}}}
	table, err := outbox.Open(t.Context(), s.Pool,
		outbox.Config{Table: sql.Table{Name: "outbox_messages"}, Shards: 16, Views: views})
	if err == nil {
		table, err = table.For(views[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	o := &Outbox{Pool: s.Pool, Connect: connectTo(s), Shards: 16, Views: []*outbox.Table{table}}
	r, err := o.ReportOf(t.Context(), Selection{}, patience)
	if err != nil || len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0], "no replica relays audit, whose state the table keeps (audit_at)") {
		t.Errorf("problems %q (%v)", r.Problems, err)
	}
	err = refused(t, o)
	if err == nil || !strings.Contains(err.Error(), "not configured here (audit)") {
		t.Errorf("prune: %v", err)
	}
}

// TestDiscardBesideAStranger deletes no row for which a destination may wait that is not configured here: one whose
// columns have the comment of `schema --destination`, or those with their state in the columns of the table.
func TestDiscardBesideAStranger(t *testing.T) {
	t.Parallel()
	audit := outbox.View{
		Name:    "audit",
		Columns: map[string]string{"relayed_at": "audit_at", "failed_at": "audit_failed", "last_error": "audit_error"},
	}
	for name, c := range map[string]struct {
		here     []outbox.View
		stranger string
		kept     string
	}{
		"columns with a comment": {[]outbox.View{{Name: "orders"}}, "(audit), in the columns audit_at", "orders row kept"},
		"the columns of the table": {
			[]outbox.View{audit}, "the table's own columns), in the columns relayed_at", "audit row kept",
		},
		"several destinations here": {
			[]outbox.View{{Name: "orders"}, {Name: "other", Columns: map[string]string{"relayed_at": "dead_at"}}},
			"(audit), in the columns audit_at", "orders row kept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := several(t)
			s.Exec(t, "comment on column outbox_messages.audit_at is 'outbox-relay destination audit: relayed_at'")
			s.Exec(t, `insert into outbox_messages (topic, payload, failed_at, audit_failed, dead_at)
				values ('row', '{}', now(), now(), now())`)
			o := opened(t, s, outbox.Config{Views: c.here})
			if e := o.Strangers(); e == nil || !strings.Contains(e.Error(), c.stranger) {
				t.Errorf("strangers: %v", e)
			}
			choice := choose(t, o, Discard(false, ""), Selection{})
			if err := choice.Each(t.Context(), func(row Chosen) error {
				if row.Action != "keep" {
					t.Errorf("the plan is to %s the row", row.Action)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if result, how := apply(t, choice); result.Changed != 1 || how[0] != c.kept {
				t.Errorf("%+v %v", result, how)
			}
			if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages where dead_at is not null"); n != 1 {
				t.Error("the row is gone")
			}
			if err := refused(t, o); err == nil || !strings.Contains(err.Error(), c.stranger) {
				t.Errorf("prune: %v", err)
			}
		})
	}
}

// TestDiscardWhereNothingCanBeKept neither deletes nor keeps a row that can do neither.
func TestDiscardWhereNothingCanBeKept(t *testing.T) {
	t.Parallel()
	s, _ := several(t)
	s.Exec(t, "alter table outbox_messages drop relayed_at")
	s.Exec(t, "comment on column outbox_messages.audit_at is 'outbox-relay destination audit: relayed_at'")
	s.Exec(t, "insert into outbox_messages (topic, payload, failed_at) values ('row', '{}', now())")
	o := opened(t, s, outbox.Config{Delete: true, Looks: true})
	if _, err := o.Choose(t.Context(), Discard(false, ""), Selection{}); err == nil ||
		!strings.Contains(err.Error(), "not configured here (audit)") {
		t.Errorf("discard: %v", err)
	}
}

// opened opens the outbox with the views of a configuration, or with one that takes every row.
func opened(t testing.TB, s *pgtest.Schema, config outbox.Config) *Outbox {
	t.Helper()
	config.Table, config.Shards = sql.Table{Name: "outbox_messages"}, 16
	if len(config.Views) == 0 {
		config.Views = []outbox.View{{Name: "default"}}
	}
	table, err := outbox.Open(t.Context(), s.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	o := &Outbox{Pool: s.Pool, Connect: connectTo(s), Shards: config.Shards}
	for _, v := range config.Views {
		seen, err := table.For(v)
		if err != nil {
			t.Fatal(err)
		}
		o.Views, o.Topics = append(o.Views, seen), append(o.Topics, "null::text")
	}
	return o
}

// TestReplayOfDeadLetters replays dead letters of rows that are still failed. A relay publishes none of a row that was
// discarded, so that replaying it would change the row and publish nothing.
func TestReplayOfDeadLetters(t *testing.T) {
	t.Parallel()
	s, o := several(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at, failed_at, dead_at) values ('failed', '{}', null,
		now(), now()),
		('discarded', '{}', now(), now(), now())`)
	result, how := apply(t, choose(t, o, Replay(), Selection{Destination: "dead"}))
	if result.Changed != 1 || how[0] != "dead failed replayed" {
		t.Errorf("%+v: %v", result, how)
	}
}

// TestReplayWithNotices replays rows and their notices in one go, wherever the configuration names the notices: those
// of rows whose relayed_at was cleared a moment before too.
func TestReplayWithNotices(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]int{"notices last": 2, "notices first": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := several(t)
			orders := outbox.View{Name: "orders"}
			view := outbox.View{Name: "notice", Columns: map[string]string{"relayed_at": "dead_at"}, RelayedOf: &orders}
			table, err := outbox.Open(t.Context(), s.Pool, outbox.Config{
				Table: sql.Table{Name: "outbox_messages"}, Shards: 16,
				Views: []outbox.View{orders, view},
			})
			if err != nil {
				t.Fatal(err)
			}
			if table, err = table.For(view); err != nil {
				t.Fatal(err)
			}
			o.Views = slices.Insert(o.Views[:2], notice, table)
			s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at, dead_at)
				select 'row ' || n, '{}', now() - n * interval '1 hour', now() from generate_series(1, 3) n`)
			result, how := apply(t, choose(t, o, Replay(), Selection{}))
			slices.Sort(how)
			want := []string{
				"notice row 1 replayed", "notice row 2 replayed", "notice row 3 replayed",
				"orders row 1 replayed", "orders row 2 replayed", "orders row 3 replayed",
			}
			if result.Changed != 6 || !slices.Equal(how, want) {
				t.Errorf("%+v: %q", result, how)
			}
			if n := pgtest.Value[int64](t, s,
				"select count(*) from outbox_messages where relayed_at is null and dead_at is null"); n != 3 {
				t.Errorf("%d rows and their notices are replayed, not 3", n)
			}
		})
	}
}
