package outbox

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// The log and doctor say whether the column was found.
func TestTxidIsDescribed(t *testing.T) {
	t.Parallel()
	for ddl, has := range map[string]bool{recommended(): true, pgtest.ShapeA: false} {
		s := pgtest.New(t)
		s.Exec(t, ddl)
		described := open(t, s, Config{}).Describe()
		if strings.Contains(described, "txid: txid xid8") != has {
			t.Errorf("described as %v", described)
		}
	}
}

// If a column holds the inserting transaction, a row that another destination has marked first does not count as a late
// commit, and a real late commit does, marked or not. Without the column the mark makes a row look like one.
func TestRowsThatAnotherDestinationMarksFirst(t *testing.T) {
	t.Parallel()
	for name, column := range map[string]string{
		"txid":   "txid xid8 default pg_current_xact_id(),",
		"mapped": "inserted_by xid8 default pg_current_xact_id(),", "without": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages (id bigint primary key, "+column+
				" topic text default 't', payload text, relayed_at "+
				"timestamptz, b_at timestamptz)")
			a, b := View{Name: "a"}, View{Name: "b", Columns: map[string]string{"relayed_at": "b_at"}}
			config := Config{Views: []View{a, b}}
			if name == "mapped" {
				config.Columns = map[string]string{"txid": "inserted_by"}
			}
			table := open(t, s, config)
			first, second := viewOf(t, table, a), viewOf(t, table, b)
			mark := func(from, to int) {
				t.Helper()
				var rows []*Row
				for _, r := range rowsOf(tail(t, first, Query{})) {
					if r.Position.Ordinal >= int64(from) && r.Position.Ordinal <= int64(to) {
						rows = append(rows, r)
					}
				}
				if err := settle(t.Context(), first, rows); err != nil || len(rows) == 0 {
					t.Fatal(len(rows), err)
				}
			}
			s.Exec(t, "insert into outbox_messages (id) select i from generate_series(1, 300) i where i not in (20, 200, 201)")
			awaitOlder(t, s)
			running, err := s.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = running.Rollback(t.Context()) }() // has no effect after the commit
			for _, statement := range []string{
				"insert into outbox_messages (id) values (20)", "savepoint here",
				"insert into outbox_messages (id) values (200)",
				"release here", "insert into outbox_messages (id) values (201)",
			} {
				if _, err := running.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			page := tail(t, second, Query{})
			if len(page.Rows) != 297 {
				t.Fatalf("%d rows at first", len(page.Rows))
			}
			mark(1, 250)
			if err := running.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			mark(200, 200)
			late := idsOf(tail(t, second, Query{After: end(page.Rows), Seen: &page.Visible}).Rows)
			if column != "" && late != "20200201" || column == "" && len(late) < 100 {
				t.Errorf("these count as late: %s", late)
			}
		})
	}
}

// Numbers of another server, or invalid ones, keep no row from being read, nor from being taken.
func TestTransactionsOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id bigint primary key, txid xid8 default pg_current_xact_id(), topic text "+
		"default 't', payload "+
		"text, relayed_at timestamptz)")
	s.Exec(t, `insert into outbox_messages (id, txid) values (1, null), (2, '3'), (3, '18446744073709551615'), (4,
		'99999999999')`)
	s.Exec(t, "insert into outbox_messages (id, txid) select 5, (pg_current_xact_id()::text::bigint + 1000000)::text::xid8")
	s.Exec(t, "insert into outbox_messages (id) values (6)")
	table := open(t, s, Config{})
	awaitOlder(t, s)
	page := tail(t, table, Query{})
	again := tail(t, table, Query{After: end(page.Rows), Seen: &page.Visible})
	if idsOf(page.Rows) != "123456" || len(again.Rows) > 0 {
		t.Errorf("%s, of which %s seem to be late", idsOf(page.Rows), idsOf(again.Rows))
	}
}

// awaitOlder waits until all transactions of the server that began before now have ended, including those of other
// tests, except for the test's own.
func awaitOlder(t *testing.T, s *pgtest.Schema, own ...string) {
	t.Helper()
	now := pgtest.Value[string](t, s, "select pg_current_xact_id()::text")
	eventually(t, "older transactions have ended", func() bool {
		return pgtest.Value[bool](t, s, `select not exists (
			select from pg_snapshot_xip(pg_current_snapshot()) x where x <= $1::text::xid8 and x::text <>
			all(coalesce($2::text[],
			'{}')))`, now, own)
	})
}
