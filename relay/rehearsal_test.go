package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/sql"
)

// unmarkable lists what keeps a database from marking, or from deleting, rows of the topic bad, and what repairs that.
// The catalogues show none of it.
var unmarkable = map[string]struct{ trouble, repair, says string }{
	"a trigger before":   trigger("before", "raise 'not here'"),
	"a trigger after":    trigger("after", "raise 'not here'"),
	"an assertion":       trigger("after", "assert false, 'not here'"),
	"a lack of space":    trigger("before", "raise 'not here' using errcode = 'disk_full'"),
	"an internal error":  trigger("before", "raise 'not here' using errcode = 'internal_error'"),
	"a missing function": trigger("before", "perform not_here()"),
	"a cancellation":     trigger("before", "raise 'not here' using errcode = 'query_canceled'"),
	"a slow refusal":     trigger("before", "perform pg_sleep(0.03); raise 'not here'"),
	"at commit": {
		"create function no() returns trigger language plpgsql as $$ begin raise 'not here'; end $$;" +
			"create constraint trigger no after update or delete on outbox_messages initially deferred for each row " +
			"when (old.topic = 'bad') execute function no()", "drop trigger no on outbox_messages", "not here",
	},
	"no effect": trigger("before", "return null"),
	"row security": {
		`alter table outbox_messages enable row level security; create policy see on outbox_messages for select using (true);
			create policy change on outbox_messages for update using (topic <> 'bad');
			create policy remove on outbox_messages for delete using (topic <> 'bad')`,
		"alter table outbox_messages disable row level security", "no effect",
	},
	"its check": {
		`alter table outbox_messages enable row level security; create policy see on outbox_messages for all using (true)
			with check (topic <> 'bad')`,
		"alter table outbox_messages disable row level security", "row-level security policy",
	},
	"a constraint": {
		"alter table outbox_messages add constraint no check (topic <> 'bad' or relayed_at is null) not valid",
		"alter table outbox_messages drop constraint no", `constraint "no"`,
	},
	"a reference": {
		"create table others (id uuid references outbox_messages); insert into others select id from outbox_messages where " +
			"topic = 'bad'; ",
		"drop table others", "foreign key",
	},
}

func trigger(when, does string) (kind struct{ trouble, repair, says string }) {
	kind.trouble = "create function no() returns trigger language plpgsql as $$ begin " + does +
		"; end $$; create trigger no " + when +
		" update or delete on outbox_messages for each row when (old.topic = 'bad') execute function no()"
	kind.repair, kind.says = "drop trigger no on outbox_messages", "not here"
	if does == "return null" {
		kind.says = "no effect"
	}
	if strings.HasPrefix(does, "perform not_here") {
		kind.says = "not_here"
	}
	return kind
}

// What the database would not mark is not published, however often the relay is started, be it one row, some rows or
// all of them. The others are relayed, and when the database is repaired all of it is, each row once.
func TestNothingIsPublishedThatCannotBeMarked(t *testing.T) {
	t.Parallel()
	const rows = 300
	for name, kind := range unmarkable {
		for _, bad := range []int{1, 100, rows} {
			for _, settle := range []string{"mark", "delete"} {
				switch {
				case settle == "delete" && (name == "a constraint" || name == "its check"), settle == "mark" &&
					name == "a reference":
					continue // does not concern it
				case bad != 100 && name != "a trigger before":
					continue // the number matters for none more than for another
				}
				t.Run(fmt.Sprintf("%s/%d/%s", name, bad, settle), func(t *testing.T) {
					t.Parallel()
					s, b := pgtest.New(t), publishertest.NewBroker()
					s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
					s.Exec(t, `insert into outbox_messages (topic, key, payload) select case when i % ($1::int / $2::int) = 0 then
						'bad' else 't' end,
						'k' || i, to_jsonb(i) from generate_series(1, $1::int) i`, rows, bad)
					s.Exec(t, kind.trouble, pgx.QueryExecModeSimpleProtocol)
					change := restricted(t, s, func(c *tested) {
						if c.Delete = settle == "delete"; name == "a slow refusal" {
							c.Destinations[0].BackoffMax = time.Minute // or the trials of withheld rows never pause
						}
					})
					left := func() int {
						return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null")
					}
					for range 3 {
						r := replica(t, s, b, change)
						stop := start(t, r)
						eventually(t, "the others are relayed, and the log and the check say why not all", func() bool {
							now := r.config.Destinations[0].snapshot()
							why := fmt.Sprint(now.Why, r.database.state())
							return left() == bad && strings.Contains(why, kind.says)
						})
						stop()
					}
					if got := len(b.All()); got != rows-bad {
						t.Errorf("%d deliveries of the %d rows that can be marked", got, rows-bad)
					}
					start(t, replica(t, s, b, change))
					s.Exec(t, kind.repair, pgx.QueryExecModeSimpleProtocol)
					eventually(t, "all are relayed", func() bool { return left() == 0 })
					if got := len(b.All()); got != rows {
						t.Errorf("%d deliveries of %d rows", got, rows)
					}
				})
			}
		}
	}
}

// away is a broker that cannot be reached until it is back.
type away struct {
	publisher.Publisher
	calls atomic.Int64
	back  atomic.Bool
}

func (p *away) Publish(ctx context.Context, messages []publisher.Message) []error {
	if p.calls.Add(1); p.back.Load() {
		return p.Publisher.Publish(ctx, messages)
	}
	err := publisher.UnavailableError(publisher.ScopeDestination, "no connection", "the broker is away")
	return slices.Repeat([]error{err}, len(messages))
}

// A relay that is started while its broker is away does not write the rows that try the broker again and again.
func TestAnOutageRehearsesNoRowTwice(t *testing.T) {
	t.Parallel()
	const rows = 20
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "insert into outbox_messages (topic, key, payload) select 't', 'k' || i, '1' from generate_series(1, "+
		"$1::int) i", rows)
	s.Exec(t, "create sequence writes") // a rollback does not undo it
	s.Exec(t, "create function counted() returns trigger language plpgsql as $$ begin perform nextval('writes'); return "+
		"new; end $$")
	s.Exec(t, "create trigger counted before update on outbox_messages for each row execute function counted()")
	broker := &away{Publisher: b.Publisher()}
	start(t, replica(t, s, b, func(c *tested) { c.Destinations[0].Publisher = broker }))
	eventually(t, "the broker is tried", func() bool { return broker.calls.Load() > 10 })
	if writes := pgtest.Value[int](t, s, "select last_value from writes"); writes != rows {
		t.Errorf("%d writes of %d rows", writes, rows)
	}
	broker.back.Store(true)
	b.Await(t, rows)
}

// Two destinations with columns of their own try the marks of the same rows at the same time, in one process or in two.
// Each meets the locks of the other's trial, and publishes only what its own trial has shown.
func TestTrialsOfTheSameRows(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%t", apart), func(t *testing.T) {
			t.Parallel()
			const rows, bad = 300, 100
			s, first, second := pgtest.New(t), publishertest.NewBroker(), publishertest.NewBroker()
			s.Exec(t, ownTable("primary key"), pgx.QueryExecModeSimpleProtocol)
			s.Exec(t, `insert into outbox_messages (topic, key, payload)
				select case when i % ($1::int / $2::int) = 0 then 'bad' else 't' end, 'k' || i, to_jsonb(i)
				from generate_series(1, $1::int) i`, rows, bad)
			refuses := trigger("before", "perform pg_sleep(0.002); raise 'not here'")
			s.Exec(t, refuses.trouble, pgx.QueryExecModeSimpleProtocol)
			both := func(c *tested) { // a withheld row stays withheld
				twoOwn(second)(c)
				c.Destinations[0].BackoffMax, c.Destinations[1].BackoffMax = time.Minute, time.Minute
			}
			changes := []func(*tested){both}
			if apart {
				only := func(i int) func(*tested) {
					return func(c *tested) { both(c); c.Destinations = c.Destinations[i : i+1] }
				}
				changes = []func(*tested){only(0), only(1)}
			}
			for range 3 {
				var stops []func()
				var destinations []*Destination
				for _, change := range changes {
					r := replica(t, s, first, change)
					destinations = append(destinations, r.config.Destinations...)
					stops = append(stops, start(t, r))
				}
				left := func(column string) int {
					return pgtest.Value[int](t, s, "select count(*) from outbox_messages where "+column+" is null")
				}
				eventually(t, "the others are relayed, and the bad rows are withheld by both", func() bool {
					return allOf(destinations).Held[engine.CauseMark] == 2*bad &&
						left("first_relayed_at") == bad && left("second_relayed_at") == bad
				})
				for _, stop := range stops {
					stop()
				}
			}
			for i, b := range []*publishertest.Broker{first, second} {
				if got := len(b.All()); got != rows-bad {
					t.Errorf("destination %d: %d deliveries of the %d rows that can be marked", i, got, rows-bad)
				}
			}
		})
	}
}
