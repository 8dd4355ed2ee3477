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
	if _, err := table.Refuse(t.Context(), []Refusal{{ID: rows[1].ID(), Attempt: 2, Error: "x"}}); !Rejected(err) {
		t.Errorf("a constraint: %v", err)
	}
	s.Exec(t, "drop table outbox_messages")
	if err := table.Settle(t.Context(), []string{rows[0].ID()}); err == nil || Rejected(err) || !Changed(err) {
		t.Errorf("a table that is gone: %v", err)
	}
}
