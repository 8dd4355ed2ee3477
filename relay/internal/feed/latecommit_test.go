package feed

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

const insertRow = "insert into outbox_messages (topic, key, payload) values ('t', $1, to_jsonb($2::int))"

// begin begins a transaction, and returns a function that executes statements in it.
func begin(t *testing.T, s *pgtest.Schema) (do func(statement string, args ...any)) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // rolls back what is left
	do = func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	do("begin")
	return do
}

// A PostgreSQL transaction is open for longer than reads of recent rows reach back. It keeps the order even if its
// number is higher than all those that had ended when the low watermark was set. The feed is given the time, so the test does
// not wait.
func TestFeedKnowsTheNextNumber(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]bool{"nothing ends meanwhile": false, "others end meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}), pgx.QueryExecModeSimpleProtocol)
			table, err := outbox.Open(t.Context(), s.Pool, outbox.Config{Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}})
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			f := New(table, 100, 100, 50*time.Millisecond, 0, now)
			f.reconciliation.due = now.Add(time.Hour)
			taken := map[string]bool{}
			var ofKey []string
			poll := func(after time.Duration) {
				t.Helper()
				for now = now.Add(after); ; now = now.Add(time.Millisecond) {
					f.Nudge()
					q, kind, ok := f.Next(now, 100, 1<<20)
					if !ok {
						t.Fatal("nothing to read")
					}
					page, err := table.Read(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					if !f.Read(kind, page, now, now) {
						continue
					}
					for i := range page.Rows {
						r := &page.Rows[i]
						if key, _ := r.Key(); !r.Beyond && !taken[r.ID()] && key == "K" {
							ofKey = append(ofKey, string(r.Message.Payload))
						}
						taken[r.ID()] = taken[r.ID()] || !r.Beyond
					}
					f.plan(len(page.Rows), now, false)
					return
				}
			}
			s.Exec(t, insertRow, "other", 0)
			for range 10 {
				poll(time.Second)
			}
			for range 5 { // another test's transactions may end at that moment
				lower, higher := begin(t, s), begin(t, s)
				lower("select pg_current_xact_id()")
				higher("select pg_current_xact_id()")
				higher(insertRow, "K", 1)
				lower(insertRow, "other", 1)
				lower("commit")
				for range 3 {
					poll(time.Second)
				}
				for range 8 {
					if mark {
						s.Exec(t, insertRow, "other", 2)
					}
					poll(time.Second)
				}
				higher(insertRow, "K", 2)
				higher("commit")
				poll(time.Second)
				if !slices.Equal(ofKey, []string{"1", "2"}) {
					t.Fatalf("the key's rows are taken as %s", ofKey)
				}
				ofKey = nil
			}
		})
	}
}
