package outbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// If a column's type has changed, its values are not taken for those of the old type: small and large rows are read
// after the table has been opened again.
func TestColumnOfAnotherType(t *testing.T) {
	t.Parallel()
	types := map[string]string{
		"jsonb": "%s::text::jsonb", "json": "%s::text::json", "text": "%s::text",
		"bytea": "convert_to(%s::text, 'UTF8')",
	}
	for _, own := range []bool{true, false} {
		for from := range types {
			for to := range types {
				if from == to || from == "bytea" {
					continue
				}
				for _, altered := range []string{"payload", "headers"} {
					if altered == "headers" && from != "json" && from != "jsonb" {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s to %s, own session %v", altered, from, to, own), func(t *testing.T) {
						t.Parallel()
						s := pgtest.New(t)
						payload, headers := from, "json"
						if altered == "headers" {
							payload, headers = "text", from
						}
						s.Exec(t, `create table outbox_messages (id bigint primary key, topic text not null default 't', payload `+
							payload+`, headers `+
							headers+`, relayed_at timestamptz)`)
						for id, size := range []int{1, mostInPage * 2} {
							s.Exec(t, `insert into outbox_messages (id, payload, headers) values ($1, $2::text::`+payload+`, '{"h": "v"}')`,
								id,
								fmt.Sprintf(`{"h": "%s"}`, strings.Repeat("x", size)))
						}
						table, err := Open(t.Context(), s.PoolWith(t, func(c *pgxpool.Config) {
							if own {
								c.AfterConnect = pgsession.Own
							}
						}),
							Config{Table: messages})
						if err != nil {
							t.Fatal(err)
						}
						before := tail(t, table, Query{})
						s.Exec(t, `alter table outbox_messages alter column `+altered+` type `+to+` using `+
							fmt.Sprintf(types[to], altered))
						page, err := table.Tail(t.Context(), Query{Most: anyNumber})
						if err != nil && !Changed(err) {
							t.Errorf("the table is not opened again for %v", err)
						}
						for i, r := range page.Rows {
							if got, want := string(r.Message.Payload), string(before.Rows[i].Message.Payload); got != want ||
								r.Invalid != nil {
								t.Errorf("%.100q, %v, before it was %.100q", got, r.Invalid, want)
							}
						}
					})
				}
			}
		}
	}
}

// Sessions outlive a table that is opened again: what they have prepared for its old types is not used for the new
// ones.
func TestIDOfAnotherTypeInTheSameSession(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id uuid primary key default gen_random_uuid(),
		topic text not null default 't', payload text not null default '', relayed_at timestamptz,
		seq bigint generated always as identity)`)
	s.Exec(t, "insert into outbox_messages select from generate_series(1, 3)")
	pool := s.PoolWith(t, func(c *pgxpool.Config) { c.AfterConnect, c.MaxConns = pgsession.Own, 1 })
	prepared := 0
	for i, to := range []string{"uuid", "uuid", "text", "uuid"} {
		if i != 1 { // a table that was opened again as it was has its statements still prepared
			s.Exec(t, "alter table outbox_messages alter column id drop default, alter column id type "+
				to+" using id::"+to)
		}
		table, err := Open(t.Context(), pool, Config{Table: messages})
		if err != nil {
			t.Fatal(err)
		}
		first := tail(t, table, Query{Most: Most{Rows: 1}})
		if rest := tail(t, table, Query{After: end(first.Rows)}); len(rest.Rows) != 2 {
			t.Errorf("%d rows after the first, with ids of type %s", len(rest.Rows), to)
		}
		var n int
		if err := pool.QueryRow(t.Context(), "select count(*) from pg_prepared_statements").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if i == 1 && n != prepared {
			t.Errorf("%d statements are prepared, %d before the table was opened again", n, prepared)
		}
		prepared = n
	}
}
