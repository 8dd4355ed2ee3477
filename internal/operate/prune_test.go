package operate

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// prune deletes rows and returns how many.
func prune(t testing.TB, o *Outbox, olderThan time.Duration, failed bool, selection Selection) int64 {
	t.Helper()
	result, _ := apply(t, choose(t, o, Prune(olderThan, failed), selection))
	return result.Changed
}

// refused returns the error of a prune.
func refused(t testing.TB, o *Outbox) error {
	t.Helper()
	_, err := o.Choose(t.Context(), Prune(time.Hour, false), Selection{})
	return err
}

// TestPrune deletes rows that were done long ago, whichever index leads to them.
func TestPrune(t *testing.T) {
	t.Parallel()
	for name, index := range map[string]string{
		"relayed_at": "create index on outbox_messages (relayed_at) where relayed_at is not null; create index on " +
			"outbox_messages (failed_at)",
		"none, in a small table": "",
		"inserted_at":            "create index on outbox_messages (inserted_at, topic)",
		"seq":                    "create index on outbox_messages (seq)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := recommended(t)
			s.Exec(t, index)
			// Of 5000 rows 2000 were relayed 50 hours ago, 1000 an hour ago, 1000 failed and 1000 are pending.
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, relayed_at, failed_at)
				select 't' || n % 2, '{}', now() - interval '60 hours', case n % 5 when 0 then now() - interval '1 hour' when 1
				then now() - interval
				'50 hours' when 2 then now() - interval '50 hours' end,
					case n % 5 when 3 then now() - interval '50 hours' end from generate_series(1, 5000) n`)
			o := open(t, s)
			left := func() int64 { return pgtest.Value[int64](t, s, "select count(*) from outbox_messages") }
			if n := choose(t, o, Prune(48*time.Hour, false), Selection{}).Rows; n != 2000 || left() != 5000 {
				t.Errorf("%d rows chosen, %d left", n, left())
			}
			some := Prune(48*time.Hour, false)
			some.most = 10
			if c := choose(t, o, some, Selection{}); c.Rows != 10 || !c.More() {
				t.Errorf("%d rows chosen, not 10; more: %v", c.Rows, c.More())
			}
			if n := prune(t, o, 48*time.Hour, false, Selection{Topics: []string{"t1"}}); n != 1000 || left() != 4000 {
				t.Errorf("%d rows of a topic deleted, %d left", n, left())
			}
			if n := prune(t, o, 48*time.Hour, false, Selection{}); n != 1000 || left() != 3000 {
				t.Errorf("%d rows deleted, %d left", n, left())
			}
			if n := prune(t, o, time.Minute, true, Selection{}); n != 2000 || left() != 1000 {
				t.Errorf("%d rows deleted, also failed ones, %d left", n, left())
			}
			if n := pgtest.Value[int64](t, s,
				"select count(*) from outbox_messages where relayed_at is null and failed_at is null"); n != 1000 {
				t.Errorf("of 1000 pending rows %d are left", n)
			}
		})
	}
}

// TestPruneDivided keeps rows that no destination takes, and rows that one of two destinations with columns of their
// own has not done.
func TestPruneDivided(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select unnest(array['order.a', 'audit', "+
		"'stray']), '{}', now() - "+
		"interval '1 day'")
	if n := prune(t, open(t, s, "orders order.*", "audit audit"), time.Hour, false, Selection{}); n != 2 {
		t.Errorf("%d rows deleted, not 2", n)
	}
}

// TestPruneRefuses recognises the columns of destinations that are not configured.
func TestPruneRefuses(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) values ('t', '{}', now() - interval '1 day')")
	s.Exec(t, "alter table outbox_messages add audited_at timestamptz; comment on column outbox_messages.audited_at is "+
		"'outbox-relay destination audit: relayed_at'")
	if err := refused(t, open(t, s)); err == nil || !strings.Contains(err.Error(),
		"destinations that are not configured here (audit), in the columns audited_at") {
		t.Errorf("the state of another destination: %v", err)
	}
	s.Exec(t, "comment on column outbox_messages.audited_at is 'of no matter'")
	if n := prune(t, open(t, s), time.Hour, false, Selection{}); n != 1 {
		t.Errorf("afterwards %d rows, not 1", n)
	}
}

// TestCleanerGivesUp does not read a table for long, again and again, and names an index that leads to the rows. With
// one it takes as long as it has to.
func TestCleanerGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		index, names string
		destinations []string
	}{
		"no index":   {"", `("relayed_at")`, nil},
		"two topics": {"", `("inserted_at")`, []string{"one t", "two u"}},
		"index":      {"create index on outbox_messages (relayed_at) where relayed_at is not null", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := recommended(t)
			s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at)
				select 't', '{}', now() - interval '1 day' from generate_series(1, 100)`)
			role := s.NewRole(t)
			s.Exec(t, c.index+"; grant usage on schema "+s.Name+" to "+role+"; grant select, update, delete on "+
				"outbox_messages to "+role+"; alter table outbox_messages enable row level security; "+
				"create policy slow on outbox_messages using (case when current_query() ilike 'commit' then "+
				"pg_sleep(0.06) is not null else true end)", pgx.QueryExecModeSimpleProtocol)
			slow := open(t, s, c.destinations...)
			slow.Close = func() {}
			slow.Connect = func(ctx context.Context) (*pgx.Conn, error) {
				conn, err := pgx.Connect(ctx, s.URLAs(t, role))
				if err == nil {
					err = pgsession.Own(ctx, conn)
				}
				return conn, err
			}
			cleaner := &Cleaner{
				After: time.Minute, Logger: slog.New(slog.DiscardHandler),
				Open: func(context.Context) (*Outbox, error) { return slow, nil },
			}
			err := cleaner.clean(t.Context())
			if c.names == "" {
				if left := pgtest.Value[int64](t, s, "select count(*) from outbox_messages"); err != nil || left > 0 {
					t.Errorf("%d rows are left (%v)", left, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "create index concurrently on ") ||
				!strings.Contains(err.Error(), c.names) {
				t.Error(err)
			}
		})
	}
}

// TestPruneLocked skips locked rows, stops in the middle, and continues when it is run again.
func TestPruneLocked(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeA)
	s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at, relayed_at)
		select 't' || n % 10, '{}', now() at time zone 'UTC', now() at time zone 'UTC', now() at time zone 'UTC' - interval
		'1 day' from
		generate_series(1, 10000) n`)
	o := open(t, s)
	err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "select from outbox_messages where topic = 't3' for share"); err != nil {
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped, err := choose(t, o, Prune(time.Hour, false), Selection{}).Apply(ctx, "", Progress{
			Done: func(rows int64) {
				if rows > 2000 {
					stop()
				}
			},
		})
		if err != nil || stopped.Changed == 0 || stopped.Changed > 2500 || stopped.Left != 10000-2500 {
			t.Errorf("stopped: %+v (%v)", stopped, err)
		}
		result, _ := apply(t, choose(t, o, Prune(time.Hour, false), Selection{}))
		if result.Locked != 1000 {
			t.Errorf("%d rows reported as locked, not 1000", result.Locked)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := prune(t, o, time.Hour, false, Selection{}); n != 1000 {
		t.Errorf("%d rows that had been locked were deleted at last, not 1000", n)
	}
}

// TestPruneSlowRows deletes fewer rows at once where their number makes a statement too slow.
func TestPruneSlowRows(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', now() - interval '1 day'
		from generate_series(1, 1200) n;
		create function too_slow() returns trigger language plpgsql as $$ begin
			if (select count(*) from old_rows) > 50 then raise 'statement timeout' using errcode = '57014'; end if;
			return null; end $$;
		create trigger slow after delete on outbox_messages referencing old table as old_rows
			for each statement execute function too_slow()`)
	if n := prune(t, open(t, s), time.Hour, false, Selection{}); n != 1200 {
		t.Errorf("%d rows deleted, not 1200", n)
	}
}

// TestPrunePartitioned drops partitions whose rows are all done, one at a time, and deletes rows of the others.
func TestPrunePartitioned(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := sql.Table{Schema: s.Name, Name: "outbox_messages"}
	assumed := (&outbox.Config{Table: table}).Assumed(outbox.View{})
	s.Exec(t, sql.Partitioned(table, nil, (&Outbox{Views: []*outbox.Table{assumed}}).Undone()))
	for _, day := range []string{"2024-05-01", "2024-05-02", "2024-05-03"} {
		name := s.Name + ".outbox_messages_p" + strings.ReplaceAll(day, "-", "")
		s.Exec(t, "create table "+name+" partition of outbox_messages for values from ('"+day+"') to (date '"+day+"' + 1)")
	}
	// The first day is done, the second has a pending row and the third a failed one.
	s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, relayed_at, failed_at)
		select 't', '{}', date '2024-05-01' + n % 3 + time '12:00', case when n > 1 and n <> 2 then '2024-05-04'::timestamptz
		end, case when n =
		2 then '2024-05-04'::timestamptz end
		from generate_series(0, 299) n`)
	s.Exec(t, "update outbox_messages set relayed_at = '2024-05-04' where inserted_at < '2024-05-02'")
	drop := func(failed bool) string {
		t.Helper()
		return pgtest.Value[string](t, s, "select coalesce(outbox_messages_drop_partition('1 hour', $1), '')", failed)
	}
	// The function knows no destination but the one with the columns of the table.
	s.Exec(t, "alter table outbox_messages add other timestamptz; "+
		"comment on column outbox_messages.other is 'outbox-relay destination audit: relayed_at'")
	var name string
	if err := s.Pool.QueryRow(t.Context(), "select outbox_messages_drop_partition('1 hour')").Scan(&name); err == nil ||
		!strings.Contains(err.Error(), "column other keeps the state") {
		t.Errorf("with the columns of another destination: %v", err)
	}
	s.Exec(t, "alter table outbox_messages drop other")
	if name := drop(false); !strings.HasSuffix(name, "outbox_messages_p20240501") {
		t.Errorf("dropped %q", name)
	}
	if name := drop(false); name != "" {
		t.Errorf("dropped %q, of which rows are not done", name)
	}
	if n := prune(t, open(t, s), time.Hour, false, Selection{}); n != 198 {
		t.Errorf("%d rows deleted of the others", n)
	}
	if name := drop(true); !strings.HasSuffix(name, "outbox_messages_p20240503") {
		t.Errorf("also failed ones: dropped %q", name)
	}
	s.Exec(t, "select outbox_messages_make_partitions(20)")
	s.Exec(t, "insert into outbox_messages (topic, payload) values ('new', '{}')")
	if n := pgtest.Value[int64](t, s, "select count(*) from outbox_messages_default") +
		pgtest.Value[int64](t, s, "select count(*) from outbox_messages"); n != 2 {
		t.Errorf("the default partition and the table hold %d rows, not 0 and 2", n)
	}
	if n := pgtest.Value[int64](t, s,
		"select count(*) from pg_inherits where inhparent = 'outbox_messages'::regclass"); n != 1+21+1 {
		t.Errorf("there are %d partitions: the default one, one of May 2024, and those of 21 days are 23", n)
	}
}

// TestCleaner deletes rows while replicas relay, one replica at a time.
func TestCleaner(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, "create index on outbox_messages (relayed_at)")
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', case when n > 100 then now() "+
		"- interval '1 hour' "+
		"end from generate_series(1, 5000) n")
	opened := open(t, s)
	opened.Close = func() {}
	table := opened.Views[0].Name()
	other, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	class, object := owner.CleaningLock(table)
	if _, err := other.Exec(t.Context(), sql.Text("prune_lock.sql", nil), class, object); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := &Cleaner{
		After: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Open: func(context.Context) (*Outbox, error) { return opened, nil },
	}
	left := func() int64 { return pgtest.Value[int64](t, s, "select count(*) from outbox_messages") }
	if err := c.clean(t.Context()); err != nil || left() != 5000 {
		t.Errorf("while another replica deletes: %d rows are left (%v)", left(), err)
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for left() != 100 { // the server may need a moment to notice the end of the session
		if err := c.clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(log.String(), "deleted old rows") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log says %s", log.String())
	}
}

// TestPruneByError deletes rows by their last error at the chosen destination, or at any.
func TestPruneByError(t *testing.T) {
	t.Parallel()
	s, o := several(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at, last_error, audit_at, audit_failed, audit_error)
		select 'a' || n, '{}', now() - interval '1 day', case n when 1 then 'timed out' end, case when n <> 2 then now() -
		interval '1 day' end,
			case n when 2 then now() - interval '1 day' end, case n when 2 then 'Timed out' when 3 then 'too large' end
		from generate_series(1, 4) n`)
	for _, c := range []struct {
		destination, text string
		failed            bool
		want              int64
	}{
		{"audit", "timed out", false, 0},
		{"audit", "timed out", true, 1},
		{"orders", "timed out", true, 1},
		{"", "timed out", true, 2},
		{"", "too large", false, 1},
		{"dead", "timed out", true, 0}, // has no column for it
	} {
		selection := Selection{Destination: c.destination, Error: c.text, Since: time.Now().Add(-time.Hour)}
		if n := choose(t, o, Prune(time.Hour, c.failed), selection).Rows; n != c.want {
			t.Errorf("%+v: %d rows", c, n)
		}
	}
}
