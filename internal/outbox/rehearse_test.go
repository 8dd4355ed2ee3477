package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A rehearsal changes nothing, waits for a row's lock only for a moment, and tells the rows that cannot be settled and the locked ones
// from the others, each for itself: a row that can be settled only without another one can be settled. If a slow
// trigger takes too long, fewer rows are asked for, and a single one that takes too long cannot be settled.
func TestRehearse(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"mark": {}, "delete": {Delete: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz
				unique,
				attempt int, note text)`)
			s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin raise 'no' using detail = 'why', hint =
				'how'; end $$`)
			s.Exec(t, `create trigger no before update or delete on outbox_messages for each row when (old.id = 2) execute
				function no()`)
			s.Exec(t, `insert into outbox_messages select i, 't', '' from generate_series(1, 5) i`)
			tx, err := s.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			if _, err := tx.Exec(t.Context(), "select from outbox_messages where id = 4 for update"); err != nil {
				t.Fatal(err)
			}
			table := open(t, s, config)
			var rows []*Row
			for _, r := range tail(t, table, Query{}).Rows {
				rows = append(rows, &r)
			}
			s.Exec(t, "delete from outbox_messages where id = 5") // is settled already
			for range 2 {
				refused, err := table.Rehearse(t.Context(), rows)
				no, locked := refused[rows[1].Identity()], refused[rows[3].Identity()]
				if err != nil || len(refused) != 2 || !Rejected(no) || !Locked(locked) {
					t.Errorf("refused: %v, %v", refused, err)
				}
			}
			if left := pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null"); left != 4 {
				t.Errorf("%d rows are left", left)
			}
			s.Exec(t, `create or replace function no() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return
				null; end $$`)
			if refused, err := table.Rehearse(t.Context(), rows); !TimedOut(err) {
				t.Errorf("a slow trigger: %v, %v", refused, err)
			}
			limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if refused, err := table.Rehearse(limited, rows[1:2]); err != nil || len(refused) != 1 {
				t.Errorf("a row with a slow trigger: %v, %v", refused, err)
			}
		})
	}
}

// A row whose lock is released soon, like that of another destination's mark, can be settled.
func TestRehearseWaitsForAMoment(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	s.Exec(t, pgtest.Insert, "t", "{}")
	table := open(t, s, Config{})
	rows := rowsOf(tail(t, table, Query{}))
	var refused map[string]error
	for range 20 { // the machine may stall for longer than a moment
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := s.Pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, "select from outbox_messages for update"); err != nil {
			t.Fatal(err)
		}
		released := make(chan struct{})
		go func() {
			defer close(released)
			_, _ = tx.Exec(ctx, `do $$ begin
				while not exists (select from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))) loop
					perform pg_stat_clear_snapshot();
				end loop; end $$`)
			_ = tx.Rollback(context.WithoutCancel(ctx))
		}()
		refused, err = table.Rehearse(t.Context(), rows)
		cancel()
		<-released
		if err != nil {
			t.Fatal(err)
		}
		if len(refused) == 0 {
			return
		}
	}
	t.Errorf("refused: %v", refused)
}

// Of what a trigger says of a row, the beginning is enough: it may quote the whole row.
func TestRehearseCutsWhatTriggersSay(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin
		raise 'no %', repeat('x', 100000) using detail = repeat('y', 100000), hint = repeat('z', 100000); end $$`)
	s.Exec(t, `create trigger no before update on outbox_messages for each row execute function no()`)
	s.Exec(t, "insert into outbox_messages (topic, payload) values ('t', '1')")
	table := open(t, s, Config{})
	page := tail(t, table, Query{}).Rows
	refused, err := table.Rehearse(t.Context(), []*Row{&page[0]})
	why, ok := errors.AsType[*pgconn.PgError](refused[page[0].Identity()])
	if !ok || !strings.HasPrefix(why.Message, "no xxx") {
		t.Fatalf("refused: %v, %v", refused, err)
	}
	if n := len(why.Message) + len(why.Detail) + len(why.Hint) + len(why.Where); n > 2000 {
		t.Errorf("%d bytes", n)
	}
}

// A server that takes no write at all is no matter of single rows, unless it takes some of them.
func TestRehearseWhereNothingIsWritten(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin raise 'no' using errcode = 'disk_full';
		end $$`)
	s.Exec(t, `create trigger no before update on outbox_messages for each row when (old.topic = 'bad') execute function
		no()`)
	s.Exec(t, "insert into outbox_messages (topic, payload) select case when i < 3 then 'bad' else 't' end, '1' from "+
		"generate_series(1, 3) i")
	table := open(t, s, Config{})
	page := tail(t, table, Query{}).Rows
	some := []*Row{&page[0], &page[1]}
	if refused, err := table.Rehearse(t.Context(), some); err == nil {
		t.Errorf("refused: %v", refused)
	}
	if refused, err := table.Rehearse(t.Context(), append(some, &page[2])); err != nil ||
		fmt.Sprint(refused[some[0].Identity()]) !=
			"rehearse marks: ERROR: no (SQLSTATE 53100)" || len(refused) != 2 {
		t.Errorf("refused: %v, %v", refused, err)
	}
}

// Rows are told apart in tables of every kind.
func TestRehearseOfEveryTable(t *testing.T) {
	t.Parallel()
	const columns = " topic text, payload text, relayed_at timestamptz, "
	for name, schema := range map[string]string{
		"uuid":       "create table outbox_messages (id uuid primary key default gen_random_uuid()," + columns + "n int)",
		"varchar":    "create table outbox_messages (id varchar(40) primary key default 'a ''\"' || gen_random_uuid()," + columns + "n int)",
		"not unique": "create table outbox_messages (id int default 1, seq int generated always as identity," + columns + "n int)",
		"odd names": `create table outbox_messages (id int generated always as identity primary key,` + columns +
			`n int, "or""der" text, rows int)`,
		"partitioned": "create table outbox_messages (id int generated always as identity," + columns + "n int) partition by list (n); " +
			"create table a partition of outbox_messages for values in (1); create table b partition of outbox_messages default",
		"without rights": recommended() + "; alter table outbox_messages add n int",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, schema, pgx.QueryExecModeSimpleProtocol)
			s.Exec(t, "insert into outbox_messages (topic, payload, n) select 't', '1', i from generate_series(1, 5) i")
			s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin raise 'no'; end $$`)
			s.Exec(t, `create trigger no before update on outbox_messages for each row when (old.n in (1, 3)) execute function
				no()`)
			pool := s.Pool
			if name == "without rights" {
				role := s.NewRole(t)
				s.Exec(t, "grant usage on schema "+s.Name+" to "+role+
					"; grant select, update (relayed_at, attempt, failed_at, last_error, "+
					"updated_at) on outbox_messages to "+role, pgx.QueryExecModeSimpleProtocol)
				pool = s.PoolAs(t, role)
			}
			table, err := Open(t.Context(), pool, Config{Table: sql.Table{Name: "outbox_messages"}})
			if err != nil {
				t.Fatal(err)
			}
			var rows []*Row
			for _, r := range tail(t, table, Query{}).Rows {
				rows = append(rows, &r)
			}
			if refused, err := table.Rehearse(t.Context(), rows); err != nil || len(refused) != 2 || len(rows) != 5 {
				t.Errorf("refused: %v, %v", refused, err)
			}
		})
	}
}
