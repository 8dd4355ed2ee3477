package outbox

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// A rehearsal changes nothing, waits for no lock, and tells the rows that cannot be settled from the others, each for itself: a
// row that can be settled only without another one can be settled. What a slow trigger would say is not awaited.
func TestRehearse(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"mark": {}, "delete": {Delete: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz unique,
				attempt int, note text)`)
			s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin raise 'no' using detail = 'why', hint = 'how'; end $$`)
			s.Exec(t, `create trigger no before update or delete on outbox_messages for each row when (old.id = 2) execute function no()`)
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
			for _, r := range tail(t, table, TailQuery{}).Rows {
				rows = append(rows, &r)
			}
			s.Exec(t, "delete from outbox_messages where id = 5") // is settled already
			for range 2 {
				refused, err := table.Rehearse(t.Context(), rows)
				if err != nil || len(refused) != 1 || refused[rows[1].Identity()] == nil {
					t.Errorf("refused: %v, %v", refused, err)
				}
			}
			if left := pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null"); left != 4 {
				t.Errorf("%d rows are left", left)
			}
			s.Exec(t, `create or replace function no() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return null; end $$`)
			if refused, err := table.Rehearse(t.Context(), rows); err != nil || len(refused) > 0 {
				t.Errorf("a slow trigger: %v, %v", refused, err)
			}
		})
	}
}

// A server that takes no write at all is no matter of single rows, unless it takes some of them.
func TestRehearseWhereNothingIsWritten(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	s.Exec(t, `create function no() returns trigger language plpgsql as $$ begin raise 'no' using errcode = 'disk_full'; end $$`)
	s.Exec(t, `create trigger no before update on outbox_messages for each row when (old.topic = 'bad') execute function no()`)
	s.Exec(t, "insert into outbox_messages (topic, payload) select case when i < 3 then 'bad' else 't' end, '1' from generate_series(1, 3) i")
	table := open(t, s, Config{})
	page := tail(t, table, TailQuery{}).Rows
	some := []*Row{&page[0], &page[1]}
	if refused, err := table.Rehearse(t.Context(), some); err == nil {
		t.Errorf("refused: %v", refused)
	}
	if refused, err := table.Rehearse(t.Context(), append(some, &page[2])); err != nil || fmt.Sprint(refused[some[0].Identity()]) !=
		"rehearse marks: ERROR: no (SQLSTATE 53100)" || len(refused) != 2 {
		t.Errorf("refused: %v, %v", refused, err)
	}
}
