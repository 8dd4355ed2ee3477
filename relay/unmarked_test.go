package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/sql"
)

// without lists ways in which a database changes nothing when a row of the topic bad is marked or deleted, and returns
// no error.
var without = map[string]string{
	"row security": `alter table outbox_messages enable row level security; create policy see on outbox_messages for
		select using (true);
		create policy change on outbox_messages for update using (topic <> 'bad'); create policy remove on outbox_messages
		for delete using (topic <> 'bad')`,
	"trigger": `create function keep() returns trigger language plpgsql as $$ begin return null; end $$;
		create trigger keep before update or delete on outbox_messages for each row when (old.topic = 'bad') execute function
		keep()`,
	"rule": `create rule keep_changed as on update to outbox_messages where old.topic = 'bad' do instead nothing;
		create rule keep_deleted as on delete to outbox_messages where old.topic = 'bad' do instead nothing`,
}

// restricted returns a change of the configuration to a role that may do everything with the table and is subject to
// row security.
func restricted(t *testing.T, s *pgtest.Schema, change func(*tested)) func(*tested) {
	role := s.NewRole(t)
	s.Exec(t,
		strings.NewReplacer("SCHEMA", s.Name, "ROLE", role).
			Replace("grant usage on schema SCHEMA to ROLE; grant select, update, delete on outbox_messages to ROLE"),
		pgx.QueryExecModeSimpleProtocol)
	pool := s.PoolAs(t, role)
	return func(c *tested) {
		c.Pool = pool
		if change != nil {
			change(c)
		}
	}
}

// A row whose mark has no effect any more is published once at most, is reported, and stops nothing else but its key.
// It is not published again after a restart.
func TestMarksWithoutEffect(t *testing.T) {
	t.Parallel()
	const rows = 300
	for name, ddl := range without {
		for _, bad := range []int{1, 100, rows} {
			for _, settle := range []string{"mark", "delete"} {
				t.Run(fmt.Sprintf("%s/%d/%s", name, bad, settle), func(t *testing.T) {
					t.Parallel()
					s, b := pgtest.New(t), publishertest.NewBroker()
					s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
					config := restricted(t, s, func(c *tested) {
						c.Delete, c.Destinations[0].BackoffMax = settle == "delete", 2*time.Second
					})
					r := replica(t, s, b, config)
					stop := start(t, r)
					pending := func() int {
						return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null")
					}
					s.Exec(t, `insert into outbox_messages (topic, key, payload) values ('t', 'first', '0')`)
					eventually(t, "rows are settled", func() bool { return len(b.All()) == 1 && pending() == 0 })
					s.Exec(t, ddl, pgx.QueryExecModeSimpleProtocol)
					s.Exec(t, `insert into outbox_messages (topic, key, payload) select case when i <= $2::int then 'bad' else 't'
						end, 'k' || i, to_jsonb(i) from generate_series(1, $1::int) i`, rows, bad)
					settled := func() bool {
						return pending() == bad && allOf(r.config.Destinations).Held[engine.CauseMark] == int64(bad)
					}
					eventually(t, "the others are settled", settled)
					for i := range 3 { // polls that pass the bad rows
						s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', $1 || i, to_jsonb(i) from
							generate_series(1, 20) i`,
							fmt.Sprint("other", i))
						eventually(t, "more are settled", settled)
					}
					if why := r.config.Destinations[0].snapshot().Why; why == nil || !strings.Contains(why.Error(), "no effect") {
						t.Errorf("the reason is %v", why)
					}
					published := len(b.All())
					if all := rows + 61; published > all || published < all-bad {
						t.Errorf("%d deliveries of %d rows, of which %d cannot be marked", published, all, bad)
					}
					stop()
					r = replica(t, s, b, config)
					start(t, r)
					eventually(t, "the bad rows are found again", settled)
					if got := len(b.All()); got != published {
						t.Errorf("%d rows are published again after a restart", got-published)
					}
				})
			}
		}
	}
}

// A row whose mark a trigger takes back is found by the sweep, is reported, and is not published at each sweep.
func TestMarksTakenBack(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, `create function keep() returns trigger language plpgsql as $$ begin return old; end $$;
		create trigger keep before update on outbox_messages for each row when (old.topic = 'bad') execute function keep();
		insert into outbox_messages (topic, key, payload) values ('t', 'other', '0')`, pgx.QueryExecModeSimpleProtocol)
	r := replica(t, s, b, func(c *tested) { c.Destinations[0].BackoffMax = 2 * time.Second })
	start(t, r)
	pending := func() int {
		return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null")
	}
	eventually(t, "the first row is settled", func() bool { return pending() == 0 })
	s.Exec(t, `insert into outbox_messages (topic, key, payload) select 'bad', 'k' || i, to_jsonb(i) from
		generate_series(1, 100) i`)
	eventually(t, "the rows are held", func() bool {
		return allOf(r.config.Destinations).Held[engine.CauseMark] == 100
	})
	s.Exec(t, "drop trigger keep on outbox_messages")
	eventually(t, "the rows are settled", func() bool { return pending() == 0 })
	if got := len(b.All()); got > 1+2*100 {
		t.Errorf("%d deliveries of 101 rows", got)
	}
}

// A refusal that has no effect keeps its key waiting, and is not tried again and again.
func TestRefusalsWithoutEffect(t *testing.T) {
	t.Parallel()
	for name, ddl := range without {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
			s.Exec(t, ddl, pgx.QueryExecModeSimpleProtocol)
			s.Exec(t, `insert into outbox_messages (topic, key, payload, headers) select case when i % 3 = 0 then 'bad' else 't'
				end, 'k' || i, '1', case when i % 3 < 2 then '[1]' else '{}' end::jsonb from generate_series(1, 300) i`)
			r := replica(t, s, b, restricted(t, s, func(c *tested) { c.Destinations[0].BackoffMax = time.Hour }))
			start(t, r)
			failed := 100
			// Through a rule, the server lets no refusal pass, whatever its condition.
			if name == "rule" {
				failed = 0
			}
			eventually(t, "the others are relayed or have failed", func() bool {
				return pgtest.Value[bool](t, s, "select count(relayed_at) = 100 and count(failed_at) = $1 from outbox_messages",
					failed)
			})
			waiting := func() bool {
				return allOf(r.config.Destinations).Held[engine.CauseFailed] == int64(200-failed)
			}
			eventually(t, "the keys wait", waiting)
			s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', 'other' || i, '1' from generate_series(1,
				20) i`)
			b.Await(t, 120)
			if !waiting() {
				t.Error("the keys do not wait")
			}
		})
	}
}
