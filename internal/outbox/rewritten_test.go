package outbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// A mark is for the version of a row that was read. A row whose content has changed stays pending and is named; one
// that was only written to, by another destination say, is marked. That holds wherever the relay finds its rows, and
// when it deletes them, also if the transaction that has changed them has written another row, which was read since.
func TestSettleMarksWhatWasRead(t *testing.T) {
	t.Parallel()
	const columns = `(id bigint %s, seq bigint generated always as identity, topic text not null default 't', key text default 'k',
		payload jsonb default '{"a": 1}', headers jsonb default '{}', extra text default 'x', state text, relayed_at timestamptz)`
	changes := []struct {
		change string
		same   bool
	}{
		{"update outbox_messages set payload = '{\"a\": 2}' where id = $1", false},
		{"update outbox_messages set topic = 'other' where id = $1", false},
		{"update outbox_messages set key = null where id = $1", false},
		{"update outbox_messages set headers = '{\"h\": \"1\"}' where id = $1", false},
		{"update outbox_messages set extra = null where id = $1", false},
		{"with gone as (delete from outbox_messages where id = $1 returning id) insert into outbox_messages (id) select id " +
			"from gone", false},
		{"update outbox_messages set state = 'seen by another' where id = $1", true},
		{"update outbox_messages set payload = payload where id = $1", true},
		{"select $1::bigint", true},
	}
	for name, table := range map[string]struct {
		ddl    string
		config Config
	}{
		"places": {"create table outbox_messages " + fmt.Sprintf(columns, "primary key"), Config{}},
		"partitioned": {"create table outbox_messages " + fmt.Sprintf(columns, "not null") + ` partition by hash (id);
			create table p0 partition of outbox_messages for values with (modulus 2, remainder 0);
			create table p1 partition of outbox_messages for values with (modulus 2, remainder 1);
			alter table outbox_messages add primary key (id)`, Config{}},
		"deleting": {"create table outbox_messages " + fmt.Sprintf(columns, "primary key"), Config{Delete: true}},
	} {
		for _, free := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %v", name, free), func(t *testing.T) {
				t.Parallel()
				s := pgtest.New(t)
				s.Exec(t, table.ddl)
				s.Exec(t, "insert into outbox_messages (id) select i from generate_series(1, $1::int) i", len(changes))
				config := table.config
				config.Extra = []rowkey.Source{{Kind: rowkey.Column, Name: "extra"}}
				outbox := open(t, s, config)
				page := tail(t, outbox, Query{})
				var rows []*Row
				var want []string
				for i := range page.Rows {
					rows = append(rows, &page.Rows[i])
				}
				tx, err := s.Pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range changes {
					if _, err := tx.Exec(t.Context(), c.change, i+1); err != nil {
						t.Fatal(err)
					}
					if !c.same {
						want = append(want, rows[i].Identity())
					}
				}
				if _, err := tx.Exec(t.Context(), "insert into outbox_messages (id) values (100)"); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				page = tail(t, outbox, Query{})
				for i := range page.Rows {
					if page.Rows[i].Message.ID == "100" {
						rows = append(rows, &page.Rows[i])
					}
				}
				if len(rows) != len(changes)+1 {
					t.Fatalf("%d rows were read", len(rows))
				}
				unwritten, err := outbox.Settle(t.Context(), rows, free)
				for identity, why := range unwritten {
					if !errors.Is(why, ErrRewritten) {
						t.Errorf("%s: %v", identity, why)
					}
				}
				if rewritten := slices.Sorted(maps.Keys(unwritten)); err != nil ||
					!slices.Equal(rewritten, slices.Sorted(slices.Values(want))) {
					t.Fatalf("%d rows count as changed, want %d: %v", len(rewritten), len(want), err)
				}
				left := tail(t, outbox, Query{}).Rows
				if len(left) != len(want) {
					t.Fatalf("%d rows are pending, want %d", len(left), len(want))
				}
				rows = rows[:0]
				for i := range left {
					rows = append(rows, &left[i])
				}
				if unwritten, err = outbox.Settle(t.Context(), rows, free); err != nil || len(unwritten)+len(tail(t, outbox, Query{}).Rows) > 0 {
					t.Errorf("what was read again: %v, %v", unwritten, err)
				}
			})
		}
	}
}

// A refusal is not written to a row that was corrected while it was refused, unless other destinations write into rows.
func TestRefusalOfWhatWasRead(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	s.Exec(t, "insert into outbox_messages (topic, payload) select 't', '1' from generate_series(1, 2)")
	table := open(t, s, Config{})
	rows := tail(t, table, Query{}).Rows
	s.Exec(t, "update outbox_messages set payload = '2' where id::text = $1", rows[0].Message.ID)
	var refusals []Refusal
	for i := range rows {
		refusals = append(refusals, Refusal{Row: &rows[i], Error: "no", Failed: true})
	}
	written, locked, err := refuse(t.Context(), table, refusals)
	if err != nil || len(locked) > 0 || len(written) != 1 || written[0] != rows[1].Identity() {
		t.Errorf("%d written, %d locked, %v", len(written), len(locked), err)
	}
}
