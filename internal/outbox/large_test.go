package outbox

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// For large rows that were written too late for a tail scan, only the keys are read, however long they are: the next tail scan reads the
// rows again.
func TestLargeRowsBeyondTheHorizonAreNotRead(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text not null, key text, payload jsonb, headers jsonb,
		relayed_at timestamptz)`)
	const insert = `insert into outbox_messages (id, topic, key, payload, headers)
		select i, 't', case when i % 4 = 3 then repeat('k', 200000) when i % 4 > 0 then 'k' || i % 4 end, to_jsonb(repeat('x', 200000)),
			jsonb_build_object('h', repeat('y', 100000)) from generate_series($1::int, $2::int) i`
	s.Exec(t, insert, 1, 20)
	awaitOlder(t, s)
	table, ctx := open(t, s, Config{}), t.Context()
	older, err := s.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = older.Rollback(ctx) }() // has no effect after the commit
	if _, err := older.Exec(ctx, insert, 21, 120); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, insert, 121, 140)
	first := read(t, table, Query{Horizon: true, Limit: 1, Bytes: 64 << 20})
	if err := older.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	page := read(t, table, Query{After: first.End, Within: first.Horizon, Limit: 1000, Bytes: 64 << 20})
	if len(page.Rows) != 139 || page.Bytes < 139*300000 {
		t.Errorf("%d rows of %d bytes", len(page.Rows), page.Bytes)
	}
	for i := range page.Rows {
		r := &page.Rows[i]
		n := r.Position.Ordinal
		if r.Beyond != (n > 20) { // those after it cannot be determined either
			t.Errorf("row %d is beyond: %t", n, r.Beyond)
		}
		want := map[int64]string{1: "k1", 2: "k2", 3: strings.Repeat("k", 200000)}[n%4]
		if key, ok := r.Key(); key != want || ok != (n%4 > 0) {
			t.Errorf("row %d has a key of %d bytes, %t", n, len(key), ok)
		}
		if got, whole := len(r.Message.Payload), !r.Beyond || n%4 == 3; whole && got < 200000 || !whole && got > 0 || r.Invalid != nil {
			t.Errorf("row %d has a payload of %d bytes, %v", n, got, r.Invalid)
		}
	}
	again := read(t, table, Query{After: first.End, Limit: 1000, Bytes: 64 << 20})
	for i := range again.Rows {
		if r := &again.Rows[i]; r.Beyond || len(r.Message.Payload) < 200000 || r.Invalid != nil {
			t.Errorf("the next tail scan reads %d bytes of row %d, %v", len(r.Message.Payload), r.Position.Ordinal, r.Invalid)
		}
	}
}
