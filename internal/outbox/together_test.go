package outbox

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// One statement marks rows for several destinations, at the places where they were read or wherever they are. A mark
// that a row has already stays as it is.
func TestTogether(t *testing.T) {
	t.Parallel()
	for name, partitioned := range map[string]string{
		"plain":       "",
		"partitioned": ` partition by range (id); create table one partition of outbox_messages for values from (0) to (100)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			for _, statement := range []string{
				`create table outbox_messages (id bigint primary key, topic text default 't', payload text,
				relayed_at timestamptz, "b At" timestamp, c_at timestamptz)` + partitioned,
				"insert into outbox_messages select generate_series(1, 6)",
			} {
				s.Exec(t, statement, pgx.QueryExecModeSimpleProtocol)
			}
			a, b := View{Name: "a"}, View{Name: "b", Columns: map[string]string{"relayed_at": "b At"}}
			c := View{Name: "c", Columns: map[string]string{"relayed_at": "c_at"}}
			table := open(t, s, Config{Views: []View{a, b, c}})
			first, second := viewOf(t, table, a), viewOf(t, table, b)
			rows, both := rowsOf(tail(t, second, Query{})), Together([]*Table{first, second})
			if unwritten, err := both.Settle(t.Context(), rows[:3], false); err != nil || len(unwritten) > 0 {
				t.Errorf("unwritten %v, %v", unwritten, err)
			}
			s.Exec(t, "update outbox_messages set relayed_at = '2020-01-01' where id = 4")
			if unwritten, err := both.Settle(t.Context(), rows[3:5], false); err != nil || len(unwritten) > 0 {
				t.Errorf("of rows one of which has a mark, unwritten %v, %v", unwritten, err)
			}
			got := pgtest.Value[string](t, s, `select string_agg(concat(id, case when relayed_at > now() - interval '1 minute'
				then 'a' end,
				case when "b At" between (now() at time zone 'UTC') - interval '1 minute' and now() at time zone 'UTC' then 'b'
				end, c_at), ' ' order
				by id)
				from outbox_messages`)
			if got != "1ab 2ab 3ab 4b 5ab 6" {
				t.Errorf("marked: %s", got)
			}
		})
	}
}
