package outbox

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A glance reports each row that a read from the beginning would return, and no other.
func TestGlance(t *testing.T) {
	t.Parallel()
	const columns = "insert into outbox_messages (topic, key, payload, "
	for name, test := range map[string]struct {
		insert string
		query  Query
		filter Filter
		more   bool
	}{
		"none":               {"", Query{}, Filter{}, false},
		"pending":            {columns + "attempt) values ('t', 'a', '{}', 1)", Query{}, Filter{}, true},
		"relayed":            {columns + "relayed_at) values ('t', 'a', '{}', now())", Query{}, Filter{}, false},
		"failed":             {columns + "failed_at) values ('t', 'a', '{}', now())", Query{}, Filter{}, false},
		"due":                {columns + "available_at) values ('t', 'a', '{}', now() - interval '1 s')", Query{}, Filter{}, true},
		"not due":            {columns + "available_at) values ('t', 'a', '{}', now() + interval '1 h')", Query{}, Filter{}, false},
		"of some shard":      {columns + "attempt) values ('t', 'a', '{}', 1)", Query{Shards: []int{0, 1, 2, 3}}, Filter{}, true},
		"of no shard":        {columns + "attempt) values ('t', 'a', '{}', 1)", Query{Shards: []int{}}, Filter{}, false},
		"of the destination": {columns + "attempt) values ('t', 'a', '{}', 1)", Query{}, Filter{Topics: []string{"t"}}, true},
		"of another one":     {columns + "attempt) values ('t', 'a', '{}', 1)", Query{}, Filter{Topics: []string{"u"}}, false},
		"without order": {"alter table outbox_messages alter seq drop identity, alter seq drop not null; " + columns +
			"seq) values ('t', 'a', '{}', null)", Query{}, Filter{}, true},
		"after relayed ones": {columns + "relayed_at) select 't', 'a', '{}', now() from generate_series(1, 1000); " + columns +
			"attempt) values ('t', 'a', '{}', 1)", Query{}, Filter{}, true},
		"with a priority": {
			"alter table outbox_messages add priority integer; " + columns + "priority) values ('t', 'a', '{}', 1)",
			Query{},
			Filter{},
			true,
		},
		"several, some relayed": {columns + "relayed_at) values ('t', 'a', '{}', now()), ('t', 'a', '{}', null)", Query{}, Filter{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, recommended()+"alter table outbox_messages add available_at timestamptz; "+test.insert, pgx.QueryExecModeSimpleProtocol)
			table := filtered(t, open(t, s, Config{Shards: 4}), test.filter)
			test.query.Glance = true
			if page := read(t, table, test.query); page.More != test.more || len(page.Rows) > 0 {
				t.Errorf("a glance: %+v", page)
			}
			test.query.Glance = false
			if page := read(t, table, test.query); len(page.Rows) > 0 != test.more {
				t.Errorf("a read: %d rows", len(page.Rows))
			}
		})
	}
}

// A glance does not scan a table with many relayed rows.
func TestGlancePlan(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', now() from generate_series(1, 5000)")
	table := open(t, s, Config{})
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			s.Exec(t, "analyze outbox_messages")
		}
		if plan := explain(t, s, table.all.glance); strings.Contains(plan, "Seq Scan") {
			t.Errorf("analyzed %t:\n%s", analyzed, plan)
		}
	}
}
