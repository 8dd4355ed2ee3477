package settle

import (
	"context"
	"errors"
	"hash/maphash"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/sql"
)

// timedTable counts the statements that took too long.
type timedTable struct {
	Table
	late int
}

func (c *timedTable) Settle(ctx context.Context, rows []*outbox.Row, free bool) (map[string]error, error) {
	unwritten, err := c.Table.Settle(ctx, rows, free)
	if outbox.TimedOut(err) {
		c.late++
	}
	return unwritten, err
}

// settlementOf returns a settlement of the schema's table, the table, and its pending rows.
func settlementOf(t *testing.T, s *pgtest.Schema, config outbox.Config, limit time.Duration) (
	*Settlement, *timedTable, []*engine.Row,
) {
	t.Helper()
	config.Table = sql.Table{Schema: s.Name, Name: "outbox_messages"}
	table, err := outbox.Open(t.Context(), s.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	page, err := table.Tail(t.Context(), outbox.Query{Most: outbox.Most{Rows: 10_000, Bytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	seed := maphash.MakeSeed()
	var rows []*engine.Row
	for i := range page.Rows {
		page.Rows[i].Hash = maphash.String(seed, string(page.Rows[i].Message.Key))
		rows = append(rows, &engine.Row{Row: &page.Rows[i], Try: 1})
	}
	timed := &timedTable{Table: table}
	settlement := New(1, []Table{timed}, nil, func(int, error) {})
	settlement.limit = limit
	return settlement, timed, rows
}

// Marks and refusals that take longer than a statement may are written in smaller statements. The following statements
// are small from the start.
func TestSlowWritesEnd(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.004); return new;
		end $$;
		create trigger slow before update on outbox_messages for each row execute function
		slow()`, pgx.QueryExecModeSimpleProtocol)
	s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', 'k' || i % 50, to_jsonb(i) from
		generate_series(1, 1000) i`)
	settlement, table, rows := settlementOf(t, s, outbox.Config{}, time.Second)
	first := order{states: []int{0}, Outcome: engine.Outcome{Rows: rows[:600]}}
	for _, r := range rows[500:600] {
		r.Refused = context.Canceled
	}
	if err := settlement.write(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	late := table.late
	if late == 0 || late > 6 || len(first.Unwritten) > 0 {
		t.Errorf("%d statements took too long, unwritten %v", late, first.Unwritten)
	}
	if err := settlement.write(t.Context(),
		&order{states: []int{0}, Outcome: engine.Outcome{Rows: rows[600:]}}); err != nil {
		t.Fatal(err)
	}
	if table.late-late > 2 { // an overloaded machine may be late once or twice
		t.Errorf("%d later statements took too long", table.late-late)
	}
	if !pgtest.Value[bool](t, s, "select count(relayed_at) = 900 and count(last_error) = 100 from outbox_messages") {
		t.Error("not everything was written")
	}
}

// A single row that cannot be marked in time, even in a small statement, counts as one that cannot be marked.
func TestRowThatIsTooSlow(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return new; end
		$$;
		create trigger slow before update on outbox_messages for each row when (old.payload = '7') execute function slow()`,
		pgx.QueryExecModeSimpleProtocol)
	s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', 'k' || i % 3, to_jsonb(i) from
		generate_series(1, 8) i`)
	settlement, _, rows := settlementOf(t, s, outbox.Config{}, time.Second)
	o := order{states: []int{0}, Outcome: engine.Outcome{Rows: rows}}
	if err := settlement.write(t.Context(), &o); err != nil {
		t.Fatal(err)
	}
	if len(o.Unwritten) != 1 || !pgtest.Value[bool](t, s, "select count(relayed_at) = 7 from outbox_messages") {
		t.Errorf("unwritten: %v", o.Unwritten)
	}
}

// Locks that a trigger meets, or a foreign key where rows are deleted, keep back only the rows that depend on them.
func TestLocksMetIndirectly(t *testing.T) {
	t.Parallel()
	const rows, keys = 500, 50
	for _, locked := range []int{1, 3, keys} {
		t.Run(strconv.Itoa(locked), func(t *testing.T) {
			t.Parallel()
			for _, way := range []string{"trigger", "foreign key"} {
				t.Run(way, func(t *testing.T) {
					t.Parallel()
					s := pgtest.New(t)
					s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
					s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', i % $2::int, to_jsonb(i) from
						generate_series(1, $1::int) i`,
						rows, keys)
					lock := "select from counters where name < $1 for update"
					if way == "trigger" {
						s.Exec(t, `create table counters (name int primary key, n int not null default 0); insert into counters select i
							from generate_series(0, 49) i;
							create function bump() returns trigger language plpgsql as $$ begin update counters set n = n + 1 where name =
							new.key::int; return new; end $$;
							create trigger count after update on outbox_messages for each row execute function
							bump()`, pgx.QueryExecModeSimpleProtocol)
					} else {
						s.Exec(t, `create table counters (id uuid primary key references outbox_messages on delete cascade, name int);
							insert into counters select id, key::int from outbox_messages`, pgx.QueryExecModeSimpleProtocol)
					}
					tx, err := s.Pool.Begin(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = tx.Rollback(context.Background()) }()
					if _, err := tx.Exec(t.Context(), lock, locked); err != nil {
						t.Fatal(err)
					}
					settlement, _, all := settlementOf(t, s, outbox.Config{Delete: way != "trigger"}, engine.StatementTimeout)
					want := rows / keys * locked
					settled := func(n int) bool {
						return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null") == rows-n
					}
					left := all
					for tries := 0; len(left) > want && tries < 20; tries++ { // with many locks, not everything is found at once
						o := order{states: []int{0}, Outcome: engine.Outcome{Rows: left}}
						if err := settlement.write(t.Context(), &o); err != nil {
							t.Fatal(err)
						}
						left = nil
						for _, r := range o.Rows {
							if errors.Is(o.Unwritten[r.Identity()], outbox.ErrLocked) {
								left = append(left, r)
							}
						}
						if tries == 0 && locked == 1 && len(left) > want {
							t.Errorf("%d rows wait for a lock at first, want %d", len(left), want)
						}
					}
					if len(left) != want || !settled(rows-want) {
						t.Fatalf("%d rows wait for locks, want %d", len(left), want)
					}
					if err := tx.Rollback(t.Context()); err != nil {
						t.Fatal(err)
					}
					o := order{states: []int{0}, Outcome: engine.Outcome{Rows: left, Careful: true}}
					if err := settlement.write(t.Context(), &o); err != nil || len(o.Unwritten) > 0 || !settled(rows) {
						t.Errorf("%d are still locked: %v", len(o.Unwritten), err)
					}
				})
			}
		})
	}
}
