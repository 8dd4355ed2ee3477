package outbox

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// What one row is to blame for is told from what concerns them all.
func TestRejected(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz, attempt int check (attempt < 3))`)
	s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$`)
	s.Exec(t, `create trigger no before update on outbox_messages for each row when (new.relayed_at is not null and new.id = 2) execute function no()`)
	s.Exec(t, `insert into outbox_messages values (1, 't', '', null, 1), (2, 't', '', null, 2)`)
	table := open(t, s, Config{})
	rows := read(t, table, Query{}).Rows
	if err := table.Settle(t.Context(), []string{rows[0].ID(), rows[1].ID()}); !Rejected(err) {
		t.Errorf("a trigger: %v", err)
	}
	if err := table.Settle(t.Context(), []string{rows[0].ID()}); err != nil {
		t.Error(err)
	}
	if _, _, err := table.Refuse(t.Context(), []Refusal{{ID: rows[1].ID(), Attempt: 2, Error: "x"}}); !Rejected(err) {
		t.Errorf("a constraint: %v", err)
	}
	s.Exec(t, "drop table outbox_messages")
	if err := table.Settle(t.Context(), []string{rows[0].ID()}); err == nil || Rejected(err) || !Changed(err) {
		t.Errorf("a table that is gone: %v", err)
	}
}

// A refusal is not written over what somebody else has done to the row meanwhile.
func TestRefusalIsGuarded(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	for range 4 {
		s.Exec(t, pgtest.Insert, "t", "{}")
	}
	table := open(t, s, Config{})
	rows := read(t, table, Query{}).Rows
	var refusals []Refusal
	for i, change := range []string{"relayed_at = inserted_at", "failed_at = inserted_at", "attempt = 2", "topic = topic"} {
		s.Exec(t, "update outbox_messages set "+change+" where id::text = $1", rows[i].Message.ID)
		refusals = append(refusals, Refusal{ID: rows[i].ID(), Attempt: rows[i].Attempt, Error: "no"})
	}
	written, _, err := table.Refuse(t.Context(), refusals)
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
	id := read(t, table, Query{}).Rows[0].ID()
	s.Exec(t, "update outbox_messages set relayed_at = '2020-01-01'")
	if err := table.Settle(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	if !pgtest.Value[bool](t, s, "select relayed_at = '2020-01-01' from outbox_messages") {
		t.Error("marked twice")
	}
}
