package outbox

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// Errors that one row causes are distinguished from errors that concern all rows.
func TestRejected(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz,
		attempt int
		check (attempt < 3))`)
	s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$`)
	s.Exec(t, `create trigger no before update on outbox_messages for each row when (new.relayed_at is not null and new.id
		= 2)
		execute function no()`)
	s.Exec(t, `insert into outbox_messages values (1, 't', '', null, 1), (2, 't', '', null, 2)`)
	table := open(t, s, Config{})
	rows := tail(t, table, Query{}).Rows
	if err := settle(t.Context(), table, []*Row{&rows[0], &rows[1]}); !Rejected(err) {
		t.Errorf("a trigger: %v", err)
	}
	if err := settle(t.Context(), table, []*Row{&rows[0]}); err != nil {
		t.Error(err)
	}
	if _, _, err := refuse(t.Context(), table,
		[]Refusal{refusal(rows[1].Identity(), 2, "x")}); !Rejected(err) {
		t.Errorf("a constraint: %v", err)
	}
	s.Exec(t, "drop table outbox_messages")
	if err := settle(t.Context(), table, []*Row{&rows[0]}); err == nil || Rejected(err) || !Changed(err) {
		t.Errorf("a table that is gone: %v", err)
	}
}

// A refusal does not overwrite what another session has done to the row meanwhile.
func TestRefusalIsGuarded(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	for range 4 {
		s.Exec(t, pgtest.Insert, "t", "{}")
	}
	table := open(t, s, Config{})
	rows := tail(t, table, Query{}).Rows
	var refusals []Refusal
	for i, change := range []string{
		"relayed_at = inserted_at", "failed_at = inserted_at", "attempt = 2",
		"topic = topic",
	} {
		s.Exec(t, "update outbox_messages set "+change+" where id::text = $1", rows[i].Message.ID)
		refusals = append(refusals, refusal(rows[i].Identity(), rows[i].Attempt, "no"))
	}
	written, _, err := refuse(t.Context(), table, refusals)
	if err != nil || len(written) != 1 || written[0] != rows[3].ID() {
		t.Errorf("%d refusals were written, %v, want the last", len(written), err)
	}
	if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages where last_error is not null"); n != 1 {
		t.Errorf("%d rows changed", n)
	}
}

// A mark keeps the time of the first one.
func TestMarkIsGuarded(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	s.Exec(t, pgtest.Insert, "t", "{}")
	table := open(t, s, Config{})
	rows := tail(t, table, Query{}).Rows
	s.Exec(t, "update outbox_messages set relayed_at = '2020-01-01'")
	if err := settle(t.Context(), table, []*Row{&rows[0]}); err != nil {
		t.Fatal(err)
	}
	if !pgtest.Value[bool](t, s, "select relayed_at = '2020-01-01' from outbox_messages") {
		t.Error("marked twice")
	}
}

// Rows are settled at the places where they were read, and moved rows wherever they are. Other rows in the old places
// are left alone.
func TestSettleMovedRows(t *testing.T) {
	t.Parallel()
	const columns = "(id uuid primary key, topic text, payload text, relayed_at timestamptz)"
	for name, c := range map[string]struct {
		shape  string
		config Config
		here   bool
	}{
		"mark":   {columns, Config{}, true},
		"delete": {columns, Config{Delete: true}, true},
		"partitioned": {columns +
			" partition by hash (id); create table one partition of outbox_messages for values with (modulus 2, remainder 0);" +
			"create table two partition of outbox_messages for values with (modulus 2, remainder 1)", Config{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages "+c.shape, pgx.QueryExecModeSimpleProtocol)
			s.Exec(t, "insert into outbox_messages select gen_random_uuid(), 't', i from generate_series(1, 5) i")
			table := open(t, s, c.config)
			if here := table.mapping.place != noPlace; here != c.here {
				t.Fatalf("settles by place: %v", here)
			}
			rows := tail(t, table, Query{}).Rows
			s.Exec(t, "update outbox_messages set topic = topic where id = $1", rows[1].Message.ID)
			elsewhere := rows[3]
			elsewhere.place = rows[0].place
			for _, settled := range [][]*Row{{&rows[1], &rows[2]}, {&elsewhere}} {
				if err := settle(t.Context(), table, settled); err != nil {
					t.Fatal(err)
				}
			}
			left := tail(t, table, Query{}).Rows
			other := func(r Row) bool { return r.ID() != rows[0].ID() && r.ID() != rows[4].ID() }
			if len(left) != 2 || slices.ContainsFunc(left, other) {
				t.Errorf("%d rows are pending, want the first and the last", len(left))
			}
			s.Exec(t, "vacuum full outbox_messages") // the rows of this version are in other places
			if err := settle(t.Context(), table, []*Row{&left[0], &left[1]}); err != nil {
				t.Fatal(err)
			}
			if left := tail(t, table, Query{}).Rows; len(left) != 0 {
				t.Errorf("%d rows are pending after they were moved", len(left))
			}
		})
	}
}

// Attempts end at the largest number of their type, of whichever one, and other rows in the statement do not notice.
func TestLargestAttempt(t *testing.T) {
	t.Parallel()
	for kind, largest := range map[string]int64{"smallint": 1<<15 - 1, "integer": 1<<31 - 1, "bigint": 1<<63 - 1} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text,
				relayed_at timestamptz, failed_at timestamptz, attempt `+kind+`)`)
			s.Exec(t, "insert into outbox_messages values (1, 't', '', null, null, $1), (2, 't', '', null, null, 1)", largest)
			table := open(t, s, Config{})
			rows := tail(t, table, Query{}).Rows
			unwritten, err := table.Refuse(t.Context(), []Refusal{
				{Row: &rows[0], Error: "no", Failed: true}, {Row: &rows[1], Error: "no"},
			})
			if err != nil || len(unwritten) != 0 {
				t.Error(unwritten, err)
			}
			if n := pgtest.Value[int](t, s, `select count(*) from outbox_messages
				where failed_at is not null and attempt = $1 or attempt = 2`, largest); n != 2 {
				t.Errorf("%d attempts are as they should be, want 2", n)
			}
		})
	}
}
