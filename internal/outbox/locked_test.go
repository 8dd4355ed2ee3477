package outbox

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// lockRow keeps a row locked until release.
func lockRow(t *testing.T, s *pgtest.Schema, id string) (release func()) {
	t.Helper()
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from outbox_messages where id::text = $1 for update", id); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// Rows that an application keeps locked are distinguished from rows that could be settled or refused.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"mark": {}, "delete": {Delete: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, pgtest.ShapeB)
			for range 4 {
				s.Exec(t, pgtest.Insert, "t", "{}")
			}
			table := open(t, s, config)
			rows := tail(t, table, Query{}).Rows
			both, ids := []*Row{&rows[0], &rows[1]}, []string{rows[0].ID(), rows[1].ID()}
			release := lockRow(t, s, rows[1].Message.ID)
			started := time.Now()
			// Without a limit of its own, the statement would wait as long as its context lasts.
			limited, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := settle(limited, table, both); !Locked(err) {
				t.Errorf("settled beside a lock: %v", err)
			}
			if took := time.Since(started); took < lockPatience || took > 30*time.Second {
				t.Errorf("waited %v", took)
			}
			locked, err := settleFree(t.Context(), table, both)
			if err != nil || !slices.Equal(locked, ids[1:]) {
				t.Errorf("locked %q, %v", locked, err)
			}
			refusals := []Refusal{
				refusal(ids[1], 1, "no"),
				refusal(rows[2].ID(), 1, "no"),
				refusal(rows[3].ID(), 7, "no"),
			}
			written, locked, err := refuse(t.Context(), table, refusals)
			if err != nil || !slices.Equal(written, []string{rows[2].ID()}) || !slices.Equal(locked, ids[1:]) {
				t.Errorf("written %q, locked %q, %v", written, locked, err)
			}
			release()
			if locked, err = settleFree(t.Context(), table, both); err != nil || len(locked) > 0 {
				t.Errorf("still locked %q, %v", locked, err)
			}
			if left := tail(t, table, Query{}).Rows; len(left) != 2 {
				t.Errorf("%d rows are left, want 2", len(left))
			}
		})
	}
}

// The server itself ends a statement at the end of its caller's time, and the connection survives.
func TestStatementsAreBoundedByTheServer(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	s.Exec(t, pgtest.Insert, "t", "{}")
	table := open(t, s, Config{})
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }() // it has written nothing
	if _, err := tx.Exec(t.Context(), "lock table outbox_messages"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := table.Tail(ctx, Query{Most: Most{Rows: 1, Bytes: 1}}); err == nil || ctx.Err() != nil {
		t.Errorf("ended by its context (%v): %v", ctx.Err(), err)
	}
	if err := settle(t.Context(), table, []*Row{{Position: At(0, string(make([]byte, 16)))}}); !Locked(err) {
		t.Errorf("settle in a locked table: %v", err)
	}
	var timeouts string
	if err := s.Pool.QueryRow(t.Context(),
		"select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')",
		pgx.QueryExecModeExec).Scan(&timeouts); err != nil || timeouts != "0 0" {
		t.Errorf("left behind: %s, %v", timeouts, err)
	}
}
