package outbox

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A read of what is new leaves out the rows that an earlier one has returned, but none that it did not see: rows of
// transactions that were running, including savepoints, and rows that have been changed.
func TestSince(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]string{"": "", "rows that become due": ", available_at timestamptz"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages (id text primary key, seq integer not null, topic text not null, payload jsonb, relayed_at "+
				"timestamptz"+extra+")")
			table := open(t, s, Config{})
			s.Exec(t, "insert into outbox_messages (id, seq, topic) values ('a', 1, 't'), ('b', 2, 't'), ('c', 3, 't')")
			awaitOlder(t, s)
			ctx := t.Context()
			running, err := s.Pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = running.Rollback(ctx) }() // has no effect after the commit
			insert := func(id string, seq int) {
				t.Helper()
				if _, err := running.Exec(ctx, "insert into outbox_messages (id, seq, topic) values ($1, $2, 't')", id, seq); err != nil {
					t.Fatal(err)
				}
			}
			insert("d", 4)
			saved, err := running.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			insert("e", 5)
			if err := saved.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			s.Exec(t, "insert into outbox_messages (id, seq, topic) values ('f', 6, 't')") // the server continues to count
			from := int64(1)
			first := read(t, table, Query{Recent: &from})
			if ids(first) != "abcf" {
				t.Fatalf("at first: %s", ids(first))
			}
			insert("g", 7)
			if err := running.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			s.Exec(t, "update outbox_messages set payload = '{}' where id = 'b'; insert into outbox_messages (id, seq, topic) values ('h', 8, 't')")
			want := "bdefgh" // f too: a transaction that began before it was running
			if extra != "" {
				want = "abcdefgh"
			}
			if page := read(t, table, Query{Recent: &from, Since: &first.Snapshot}); ids(page) != want {
				t.Errorf("then: %s, want %s", ids(page), want)
			}
			awaitOlder(t, s)
			next := read(t, table, Query{Recent: &from})
			if page := read(t, table, Query{Recent: &from, Since: &next.Snapshot}); extra == "" && ids(page) != "" {
				t.Errorf("when nothing is new: %s", ids(page))
			}
		})
	}
}

// awaitOlder waits until all transactions of the server that began before now have ended, including those of other tests,
// except for the test's own.
func awaitOlder(t *testing.T, s *pgtest.Schema, own ...string) {
	t.Helper()
	now := pgtest.Value[string](t, s, "select pg_current_xact_id()::text")
	eventually(t, "older transactions have ended", func() bool {
		return pgtest.Value[bool](t, s, `select not exists (
			select from pg_snapshot_xip(pg_current_snapshot()) x where x <= $1::text::xid8 and x::text <> all(coalesce($2::text[],
			'{}')))`, now, own)
	})
}

// A role that may not see which transaction wrote a row gets all rows.
func TestSinceWithRightsOnColumns(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id text primary key, seq integer not null, topic text not null, payload jsonb, relayed_at "+
		"timestamptz)")
	s.Exec(t, "insert into outbox_messages (id, seq, topic) values ('a', 1, 't')")
	role := s.NewRole(t)
	s.Exec(t, "grant usage on schema "+s.Name+" to "+role+"; grant select (id, seq, topic, payload, relayed_at), update (relayed_at) on "+
		"outbox_messages to "+role)
	table, err := Open(t.Context(), s.PoolAs(t, role), Config{Table: sql.Table{Name: "outbox_messages"}})
	if err != nil {
		t.Fatal(err)
	}
	from := int64(1)
	page := read(t, table, Query{Recent: &from})
	if page = read(t, table, Query{Recent: &from, Since: &page.Snapshot}); ids(page) != "a" {
		t.Errorf("rows %q", ids(page))
	}
}

// While no transaction has ended since the earlier read, a read looks at no row, not even at one that the earlier read did not return.
// The end of any transaction ends that.
func TestSinceNothingHasEnded(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id text primary key, seq integer not null, topic text not null, payload jsonb, relayed_at "+
		"timestamptz)")
	table := open(t, s, Config{})
	s.Exec(t, "insert into outbox_messages (id, seq, topic) values ('a', 1, 't')")
	from := int64(1)
	everything := func() Snapshot { // rows of all transactions are wanted
		seen := read(t, table, Query{Recent: &from}).Snapshot
		seen.Oldest = firstNormal
		return seen
	}
	eventually(t, "a read finds that nothing has ended", func() bool {
		seen := everything()
		page := read(t, table, Query{Recent: &from, Since: &seen})
		return page.Snapshot.text == seen.text && ids(page) == "" && !page.More
	})
	seen := everything()
	s.Exec(t, "insert into outbox_messages (id, seq, topic) values ('b', 2, 't')")
	if page := read(t, table, Query{Recent: &from, Since: &seen}); ids(page) != "ab" {
		t.Errorf("after a commit: %q", ids(page))
	}
}
