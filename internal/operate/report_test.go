package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

const patience = 30 * time.Second

// recommended creates the recommended table, with the column for delays.
func recommended(t testing.TB) *pgtest.Schema {
	t.Helper()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"})+"alter table outbox_messages add available_at timestamptz")
	return s
}

// open returns the outbox with destinations that divide the rows, each given as a name and its patterns. Without
// destinations, one takes all rows.
func open(t testing.TB, s *pgtest.Schema, destinations ...string) *Outbox {
	t.Helper()
	table, err := outbox.Open(t.Context(), s.Pool, outbox.Config{Table: sql.Table{Name: "outbox_messages"}, Shards: 16})
	if err != nil {
		t.Fatal(err)
	}
	o := &Outbox{Pool: s.Pool, Connect: connectTo(s), Shards: 16}
	var before [][]string
	if destinations == nil {
		destinations = []string{"default"}
	}
	for _, d := range destinations {
		name, patterns, _ := strings.Cut(d, " ")
		topics := strings.Fields(patterns)
		view, err := table.For(outbox.View{Name: name, Filter: outbox.Filter{Topics: topics, Before: before}})
		if err != nil {
			t.Fatal(err)
		}
		o.Views, o.Topics = append(o.Views, view), append(o.Topics, "null::text")
		before = append(before, topics)
	}
	return o
}

// summary is a short form of a backlog.
func summary(b Backlog) string {
	n := func(count *int64) any {
		if count == nil {
			return "-"
		}
		return *count
	}
	text := fmt.Sprint("due ", n(b.Due), " retrying ", n(b.Retrying), " scheduled ", n(b.Scheduled), " failed ",
		n(b.Failed))
	for _, t := range b.Topics {
		text += fmt.Sprint("; ", t.Topic, " ", t.Due, " ", t.Retrying, " ", t.Scheduled, " ", t.Failed)
	}
	return text
}

// TestReport counts rows in every state, for destinations that divide them.
func TestReport(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, last_error, available_at, relayed_at, failed_at)
		select 'order.a', '{}'::jsonb, now() - interval '90 seconds', null::text, null::timestamptz, null::timestamptz,
		null::timestamptz from
		generate_series(1, 5) union all
		select 'order.a', '{}', now(), 'no', null, null, null from generate_series(1, 2) union all
		select 'order.b', '{}', now(), null, now() + interval '1 day', null, null from generate_series(1, 3) union all
		select 'order.b', '{}', now(), 'no', null, null, now() from generate_series(1, 4) union all
		select 'order.b', '{}', now(), 'no, and discarded', null, now(), now() from generate_series(1, 9) union all
		select 'order.c', '{}', now(), null, null, now(), null from generate_series(1, 9) union all
		select 'audit', '{}', now(), null, null, null, null from generate_series(1, 6) union all
		select 'stray', '{}', now(), null, null, null, null from generate_series(1, 7)`)
	r, err := open(t, s, "orders order.*", "audit audit").ReportOf(t.Context(), Selection{}, patience)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"due 7 retrying 2 scheduled 3 failed 4; order.b 0 0 3 4; order.a 7 2 0 0",
		"due 6 retrying 0 scheduled 0 failed 0; audit 6 0 0 0",
	} {
		if got := summary(r.Destinations[i].Backlog); got != want {
			t.Errorf("%s: %s, not %s", r.Destinations[i].Name, got, want)
		}
	}
	if got := *r.Destinations[0].OldestAgeSeconds; got < 90 || got > 3600 {
		t.Errorf("the oldest row of orders is due for %v s, not for 90", got)
	}
	if r.Untaken == nil || summary(*r.Untaken) != "due 7 retrying 0 scheduled 0 failed 0; stray 7 0 0 0" {
		t.Errorf("rows that nobody takes: %+v", r.Untaken)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"due":7,"retrying":2,"scheduled":3,"failed":4,"at_least":[]`) {
		t.Errorf("as JSON: %s (%v)", text, err)
	}
	all, err := open(t, s).ReportOf(t.Context(), Selection{}, patience)
	if err != nil || all.Untaken != nil ||
		summary(all.Destinations[0].Backlog)[:43] != "due 20 retrying 2 scheduled 3 failed 4; ord" {
		t.Errorf("one destination for all: %s (%v)", summary(all.Destinations[0].Backlog), err)
	}
}

// TestReportAgeOfTopics: where rows with available_at have an index of their own, the oldest row of a topic is found in
// either index.
func TestReportAgeOfTopics(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := sql.Table{Schema: s.Name, Name: "outbox_messages"}
	s.Exec(t, sql.Schema(table)+(&outbox.Config{Table: table}).DelaySchema(outbox.View{}))
	s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, available_at) values
		('old', '{}', now() - interval '3 hours', null),
		('old', '{}', now() - interval '4 hours', now() - interval '1 minute'),
		('late', '{}', now() - interval '1 hour', null),
		('late', '{}', now() - interval '4 hours', now() - interval '2 hours')`)
	r, err := open(t, s).ReportOf(t.Context(), Selection{}, patience)
	if err != nil || len(r.Destinations[0].Topics) != 2 {
		t.Fatalf("%+v (%v)", r, err)
	}
	for i, hours := range []float64{2, 3} { // late, old
		if age := *r.Destinations[0].Topics[i].OldestAgeSeconds / 3600; age < hours || age > hours+0.5 {
			t.Errorf("the oldest row of topic %s is due for %v hours, not %v", r.Destinations[0].Topics[i].Topic, age,
				hours)
		}
	}
}

// TestReportCapped checks that counting stops, and that the report says so.
func TestReportCapped(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, failed_at) select 't' || n % 1000, '{}', case when n % 2 = 0
		then now() end
		from generate_series(1, 60000) n`)
	r, err := open(t, s).ReportOf(t.Context(), Selection{}, patience)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Destinations[0]
	if *d.Due != r.Limit || *d.Failed != r.Limit || fmt.Sprint(d.AtLeast) != "[due failed]" {
		t.Errorf("of 30000 due and 30000 failed rows: due %d, failed %d, at least %v", *d.Due, *d.Failed, d.AtLeast)
	}
	if len(d.Topics) != 200 || d.MoreTopics != 800 {
		t.Errorf("%d topics and %d more, of 1000", len(d.Topics), d.MoreTopics)
	}
}

// TestReportShapes reads tables that applications already have, one of them without any index.
func TestReportShapes(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]string{"A": pgtest.ShapeA, "B": pgtest.ShapeB, "C": pgtest.ShapeC} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, shape)
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at, failed_at)
				select 'x', '{}', now() at time zone 'UTC' - interval '1 minute', now() at time zone 'UTC', case when n > 3 then
				now() end from
				generate_series(1, 5) n`)
			r, err := open(t, s).ReportOf(t.Context(), Selection{}, patience)
			if err != nil {
				t.Fatal(err)
			}
			want, problems := "due 3 retrying 0 scheduled 0 failed 2; x 3 0 0 2", 0
			if name == "C" { // no index makes it cheap
				want, problems = "due - retrying - scheduled - failed -", 3
			}
			if got := summary(r.Destinations[0].Backlog); got != want || len(r.Problems) != problems {
				t.Errorf("%s, not %s; problems: %q", got, want, r.Problems)
			}
			if age := r.Destinations[0].OldestAgeSeconds; name != "C" && (*age < 60 || *age > 3600) {
				t.Errorf("the oldest row is due for %v s, not for 60", *age)
			}
		})
	}
}

// TestReportOwnership sees replicas and their shards.
func TestReportOwnership(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	o := open(t, s)
	before, err := o.Ownership(t.Context())
	if err != nil || before.Shards != 16 || before.Unowned != 16 || len(before.Replicas) != 0 {
		t.Fatalf("before anybody relays: %+v (%v)", before, err)
	}
	startOwner(t, s, o, 8)
	for {
		now, err := o.Ownership(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now.Owned == 8 {
			if now.Shards != 8 || now.Unowned != 0 || len(now.Replicas) != 1 || now.Replicas[0].Shards != 8 ||
				now.Replicas[0].Of != 8 ||
				!now.Replicas[0].CanPublish {
				t.Errorf("%+v", now)
			}
			return
		}
	}
}

// startOwner runs a replica until the test ends.
func startOwner(t *testing.T, s *pgtest.Schema, o *Outbox, shards int) {
	replica := owner.New()
	replica.Shards, replica.TTL, replica.Logger = shards, 20*time.Second, slog.New(slog.DiscardHandler)
	replica.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.URL) }
	var groups []*owner.Group
	for _, g := range o.Views[0].Groups() {
		groups = append(groups, &owner.Group{Column: g.Column, Mapping: g.Mapping})
	}
	replica.Open(o.Views[0].Name(), groups)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); replica.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}
